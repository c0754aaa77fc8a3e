"""Writes down every request of a client with its answer and both times, one line for each task that it is about."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from tests.history.records import VERBS, Answer, Said
from tests.live.sockets import Socket
from treadle import Client
from treadle.errors import ProblemError, TreadleError

Heard = tuple[Answer, dict[str, Any]]
_REPEATABLE = ("submit", "submit_each", "get", "runs", "send")
"""What does no harm twice. What else is sent again might be refused for what its first sending has done."""


class Recorded:
    """A client whose requests are written down; `call` never raises but when it is cancelled."""

    def __init__(
        self,
        name: str,
        said: list[Said],
        ask: Callable[[str, dict[str, Any]], Awaitable[Heard]],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self._said = said
        self._ask = ask
        self._now = now

    async def call(self, op: str, **fields: Any) -> Heard:
        """Make a request of the protocol, and return how it was answered and with what."""
        sent = self._now()
        try:
            answer, told = await self._ask(op, fields)
        except asyncio.CancelledError:
            self._write(op, fields, sent, None, ("unknown", {}))
            raise
        self._write(op, fields, sent, None if answer == "unknown" else self._now(), (answer, told))
        return answer, told

    def _write(self, op: str, fields: dict[str, Any], sent: float, answered: float | None, heard: Heard) -> None:
        for kind, task, given, (answer, told) in _each(op, fields, heard):
            self._said.append(Said(self.name, kind, task, sent, answered, answer, given, told))


def _each(op: str, fields: dict[str, Any], heard: Heard) -> Iterator[tuple[str, str, dict[str, Any], Heard]]:
    """Take a request and its answer apart: one for each task."""
    answer, told = heard
    match op:
        case "submit" | "submit_each":
            items = told.get("tasks") or [{}] * len(fields["tasks"])
            refs = {one["ref"]: one["id"] for one in fields["tasks"] if "ref" in one}
            for given, item in zip((_by_id(one, refs) for one in fields["tasks"]), items, strict=True):
                refused: Heard = ("refused", item["problem"]) if "problem" in item else (answer, item)
                yield "submit", given["id"], given, refused
        case "actions":
            problems = {one["id"]: one for one in told.get("problems", ())}
            for name in fields["ids"]:
                if name in problems:
                    yield fields["action"], name, fields, ("refused", problems[name])
                else:
                    yield fields["action"], name, fields, (answer, {"version": told.get("versions", {}).get(name, 0)})
        case "action":
            yield fields["action"], fields["id"], fields, heard
        case "edit" | "get" | "runs":
            yield op, fields["id"], fields, heard
        case "send":
            # What it is told is the message, which has no version.
            yield op, fields["task_id"], fields, (answer, {})
        case _:
            # What is about no task, such as a registration, has no place in its history.
            assert op not in VERBS


def _by_id(given: dict[str, Any], refs: dict[str, str]) -> dict[str, Any]:
    """Return a submit whose `depends_on` names tasks by their ids, and always lists of them."""
    if "depends_on" not in given:
        return given
    lists = {name: one if isinstance(one, list) else [one] for name, one in given["depends_on"].items()}
    return {**given, "depends_on": {name: [refs.get(one, one) for one in ids] for name, ids in lists.items()}}


def of_client(name: str, client: Client, said: list[Said]) -> Recorded:
    """Record what goes through the SDK."""

    async def ask(op: str, fields: dict[str, Any]) -> Heard:
        try:
            return "acknowledged", await client.call(op, fields, resend=op in _REPEATABLE)
        except ProblemError as refusal:
            known = refusal.problem.status < 500
            return "refused" if known else "unknown", refusal.problem.model_dump(mode="json")
        except TreadleError as error:
            return "unknown", {"detail": str(error)}

    return Recorded(name, said, ask)


def of_socket(name: str, socket: Socket, said: list[Said]) -> Recorded:
    """Record what goes through the tests' own socket."""

    async def ask(op: str, fields: dict[str, Any]) -> Heard:
        try:
            heard = await socket.ask(op, **fields)
        except (OSError, TimeoutError) as error:
            return "unknown", {"detail": str(error)}
        if "problem" not in heard:
            return "acknowledged", heard["ok"]
        return "refused" if heard["problem"]["status"] < 500 else "unknown", heard["problem"]

    return Recorded(name, said, ask)
