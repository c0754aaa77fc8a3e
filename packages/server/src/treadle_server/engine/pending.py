"""A command that waits for the writer, and the future of its answer."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

from treadle_server.engine.commands.base import Command
from treadle_server.engine.read_set import ReadSet


@dataclass(slots=True, eq=False)
class Pending:
    """A command and the future of its answer."""

    command: Command[Any]
    answer: "asyncio.Future[Any]" = field(init=False)
    outcome: Any = None
    refusal: Exception | None = None
    rows: int = field(init=False)
    """How many tasks the command may write. It is kept because counting a large command's tasks is expensive."""
    is_done: bool = False
    """Whether the fast path has applied it in the current transaction."""

    def __post_init__(self) -> None:
        self.answer = asyncio.get_running_loop().create_future()
        self.rows = self.command.rows

    def declare_reads(self, reads: ReadSet) -> bool:
        """Let the command declare what it needs to have read; return whether it is to be applied."""
        self.refusal = None
        try:
            self.command.reads(reads)
        except Exception as error:  # noqa: BLE001 - raised to the caller
            self.refusal = error
            return False
        return True

    def send_answer(self) -> None:
        """Answer with the outcome, after the commit."""
        if self.answer.done():
            return
        if self.refusal is not None:
            self.answer.set_exception(self.refusal)
        else:
            self.answer.set_result(self.outcome)

    def refuse(self, error: Exception) -> None:
        """Answer with the error: nothing was changed."""
        if not self.answer.done():
            self.answer.set_exception(error)
