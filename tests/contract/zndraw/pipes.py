"""Programs of the other environment as processes of their own, with JSON lines between us and them."""

import contextlib
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.contract.zndraw import HERE

STOP_LIMIT = 20.0
"""Seconds that a program may take to end."""


class Refused(Exception):
    """The package raised an exception: which one, and its text."""

    def __init__(self, raised: str, text: str) -> None:
        super().__init__(f"{raised}: {text}")
        self.raised = raised


class Program:
    """A program that runs in the other environment."""

    def __init__(self, python: Path, script: str, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [str(python), "-E", str(HERE / script), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )

    def send(self, line: str = "") -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def receive(self) -> dict[str, Any]:
        """Return the next line; the test's own time limit bounds the wait."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise EOFError(f"the program ended with {self.process.wait(STOP_LIMIT)}")
        return json.loads(line)  # type: ignore[no-any-return]

    def close(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
        self.process.wait(STOP_LIMIT)


class Client:
    """A client in `steered.py`, which may hold several: each order is answered, or raises what the package raised."""

    def __init__(self, program: Program, url: str, token: str) -> None:
        self._program = program
        self._name = token
        self.order("connect", url=url, token=token)

    def order(self, order: str, **fields: Any) -> None:
        """Give an order without waiting for its answer."""
        self._program.send(json.dumps({"client": self._name, "order": order, **fields}))

    def answer(self) -> Any:
        """Return what came of the last order. Raises `Refused`."""
        answer = self._program.receive()
        if "raised" in answer:
            raise Refused(answer["raised"], answer["text"])
        return answer["ok"]

    def __call__(self, order: str, **fields: Any) -> Any:
        """Have the order carried out. Raises `Refused`."""
        self.order(order, **fields)
        return self.answer()


class Serving(Program):
    """`serving.py`: it tells what happens."""

    def until(self, event: str, **fields: Any) -> list[dict[str, Any]]:
        """Read on until the event with these fields; return everything that was told, it last."""
        told = [self.receive()]
        while told[-1]["event"] != event or fields.items() - told[-1].items():
            told.append(self.receive())
        return told


@contextlib.contextmanager
def ended(program: Program) -> Iterator[None]:
    """Leave no process behind, whatever the test did."""
    try:
        yield
    finally:
        program.process.kill()
        program.close()
