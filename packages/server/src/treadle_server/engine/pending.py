"""A command that waits for the writer, and who waits for its answer."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

from treadle_server.engine.commands.base import Command
from treadle_server.engine.read_set import ReadSet
from treadle_server.errors import StoreUnavailable
from treadle_server.store.base import LostUpdate


@dataclass(slots=True, eq=False)
class Pending:
    """A command and who waits for its answer."""

    command: Command[Any]
    answer: "asyncio.Future[Any]" = field(init=False)
    outcome: Any = None
    refusal: Exception | None = None
    rows: int = field(init=False)
    """How many tasks the command may write: of a large one that is dear to find out."""
    is_done: bool = False
    """Whether it went by the fast path, in the transaction that is under way."""

    def __post_init__(self) -> None:
        self.answer = asyncio.get_running_loop().create_future()
        self.rows = self.command.rows

    def declare_reads(self, reads: ReadSet) -> bool:
        """Let the command say what it needs read; return whether it is to be applied."""
        self.refusal = None
        try:
            self.command.reads(reads)
        except Exception as error:  # noqa: BLE001 - told to the one who asked
            self.refusal = error
            return False
        return True

    def send_answer(self) -> None:
        """Tell the outcome; the commit is done."""
        if self.answer.done():
            return
        if self.refusal is not None:
            self.answer.set_exception(self.refusal)
        else:
            self.answer.set_result(self.outcome)

    def refuse(self, error: Exception) -> None:
        """Tell that nothing was changed; where other servers were faster each time, that it is worth another try."""
        if isinstance(error, LostUpdate):
            error = StoreUnavailable(f"other writers were faster each time ({error}); nothing was changed: try again")
        if not self.answer.done():
            self.answer.set_exception(error)
