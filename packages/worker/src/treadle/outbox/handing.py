"""Handing rows over to the server, and what its answer to each of them means."""

import asyncio
import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from treadle.client.client import Client
from treadle.client.submit_batcher import SubmitBatcher
from treadle.errors import (
    ConnectionFailed,
    Forbidden,
    InvalidArguments,
    JobNotFound,
    LimitFull,
    MethodNotAllowed,
    ProblemError,
    RouteNotFound,
    SchemaConflict,
    StoreUnavailable,
    TooManyRequests,
    Unauthorized,
    problem_named,
)
from treadle.outbox.rows import Row, not_utf8
from treadle.wire.amounts import counted
from treadle.wire.names import InvalidRoom, parse_room

SECONDS = 60.0
"""How long a batch's answers are waited for; the same rows may be sent again."""

_OF_ALL = (Unauthorized, StoreUnavailable, RouteNotFound, MethodNotAllowed)
"""Problems that say nothing of a row: with them all wait."""

_OF_NOW = (TooManyRequests, SchemaConflict, LimitFull)
"""Problems of a row that may be gone a moment later."""

HandingAnswer = dict[str, Any] | BaseException


@dataclass(slots=True)
class HandingOutcome:
    """What became of rows."""

    handed: list[Row] = field(default_factory=list)
    """The server has their tasks."""
    refused: list[tuple[Row, dict[str, Any]]] = field(default_factory=list)
    """The server refuses them for good, with these problems."""
    left: list[tuple[Row, BaseException]] = field(default_factory=list)
    """To be tried again later."""
    is_late: bool = False
    """Whether the time was up before everything was answered."""


async def hand_over(client: Client, rows: Sequence[Row]) -> HandingOutcome:
    """Submit rows in their order, registering jobs that are missing; what is refused harms no other.

    When it takes long the rest is left. Raises what says nothing of a row: `ConnectionFailed`, `Unauthorized`,
    `StoreUnavailable` and other `TreadleError`s; some may have been handed over by then, and are the same tasks when
    they come again.
    """
    outcome = HandingOutcome()
    ends_at = asyncio.get_running_loop().time() + SECONDS
    for room, several in groupby(rows, key=lambda row: row.room):
        await _submit(client, room, list(several), outcome, ends_at)
    if outcome.is_late:
        late = ConnectionFailed(f"the server took more than {SECONDS:.0f} s for {counted(len(rows), 'row')}")
        if not (outcome.handed or outcome.refused):
            raise late
        noted = {row.seq for row in outcome.handed} | {row.seq for row, _ in (*outcome.refused, *outcome.left)}
        outcome.left += [(row, late) for row in rows if row.seq not in noted]
    return outcome


async def _submit(client: Client, room: str, rows: list[Row], outcome: HandingOutcome, ends_at: float) -> None:
    answers = await _asked(client, room, rows, outcome, ends_at)
    # Registered for one row it is there for all: another program's rows have no registrations.
    known = {row.job for row, answer in answers if isinstance(answer, JobNotFound) and row.registration is not None}
    missing: list[tuple[Row, JobNotFound]] = []
    for row, answer in answers:
        if isinstance(answer, JobNotFound) and row.job in known:
            missing.append((row, answer))
        else:
            _note(outcome, row, answer)
    if not missing:
        return
    try:
        async with asyncio.timeout(SECONDS):
            refusals = await _register(client, [(row, why) for row, why in missing if row.registration is not None])
    except TimeoutError:
        outcome.is_late = True
        return
    again = [row for row, _ in missing if row.registration not in refusals]
    for row, _ in missing:
        if (why := refusals.get(row.registration)) is not None:
            _note(outcome, row, why)
    for row, answer in await _asked(client, room, again, outcome, ends_at):
        _note(outcome, row, answer)


async def _asked(
    client: Client, room: str, rows: list[Row], outcome: HandingOutcome, ends_at: float
) -> list[tuple[Row, HandingAnswer]]:
    """Send rows of one room, and return those that were answered in time, with what was answered.

    Those that are no submits are refused here.
    """
    items: list[dict[str, Any]] = []
    sent: list[Row] = []
    for row in rows:
        if (name := not_utf8(row)) is not None:
            outcome.refused.append((row, _problem("validation-error", f"the row's {name} is not UTF-8")))
            continue
        try:
            parse_room(room)
            items.append(_item(row))
            sent.append(row)
        except InvalidRoom as error:
            # Over plain HTTP it would lead to a route that is none, as every row does at a server that is none.
            outcome.refused.append((row, _problem("invalid-room-id", str(error))))
        except (ValueError, RecursionError) as error:
            outcome.refused.append((row, _problem("validation-error", f"the row's body is no submit: {error}")))
    if outcome.is_late:
        return []
    opening = client.opening()
    answers: list[asyncio.Future[dict[str, Any]]] = []
    outcome.is_late = True
    with suppress(TimeoutError):
        async with asyncio.timeout_at(ends_at):
            await opening.run(_gathered(opening.batcher, room, items, answers))
            outcome.is_late = False
    # What is refused as a whole is sent by halves: some may have been answered where the time was up.
    return [(row, one.exception() or one.result()) for row, one in zip(sent, answers, strict=False) if _is_there(one)]


async def _gathered(
    batcher: SubmitBatcher, room: str, items: list[dict[str, Any]], answers: list["asyncio.Future[dict[str, Any]]"]
) -> None:
    answers += [asyncio.ensure_future(batcher.add(room, item, wait=False)) for item in items]
    await asyncio.gather(*answers, return_exceptions=True)


def _is_there(answer: "asyncio.Future[dict[str, Any]]") -> bool:
    return answer.done() and not answer.cancelled()


async def _register(
    client: Client, missing: list[tuple[Row, JobNotFound]]
) -> dict[str | None, ProblemError | InvalidArguments]:
    """Register the jobs of these rows, and return what the server has against which of the registrations."""
    refusals: dict[str | None, ProblemError | InvalidArguments] = {}
    for registration, why in {row.registration: why for row, why in missing}.items():
        try:
            await client.call("register", _asked_of(registration))
        except Forbidden:
            refusals[registration] = why
        except SchemaConflict:
            continue  # it is registered by now, in another way: the submit is held against that
        except _OF_ALL:
            raise
        except (ProblemError, InvalidArguments) as error:
            refusals[registration] = error
        except (ValueError, RecursionError) as error:
            refusals[registration] = InvalidArguments(f"the row's registration is none: {error}")
    return refusals


def _asked_of(registration: str | None) -> dict[str, Any]:
    """Return what a registration asks for; raises `ValueError`, and `RecursionError` when it is too deep."""
    asked = json.loads(registration or "{}")
    if not isinstance(asked, dict):
        raise ValueError("it is to be an object with room, category, name and schema")  # noqa: TRY004 - as its JSON
    parse_room(asked.get("room"))  # type: ignore[arg-type] # what is no text is no room
    return asked


def _item(row: Row) -> dict[str, Any]:
    """Return the item of the submit that a row is; raises `ValueError`, and `RecursionError` when it is too deep."""
    body = json.loads(row.body)
    if not isinstance(body, dict) or body.keys() & {"id", "job"}:
        raise ValueError('it is to be an object such as {"payload": {}}, without id and job')
    return {"id": row.id, "job": row.job, **body}


def _note(outcome: HandingOutcome, row: Row, answer: HandingAnswer) -> None:
    """Note what an answer means for its row; raises one that says nothing of it."""
    if isinstance(answer, dict):
        outcome.handed.append(row)
    elif isinstance(answer, InvalidArguments):
        outcome.refused.append((row, _problem("validation-error", str(answer))))
    elif not isinstance(answer, ProblemError) or isinstance(answer, _OF_ALL):
        raise answer
    elif isinstance(answer, _OF_NOW) or answer.problem.status >= 500:
        outcome.left.append((row, answer))
    else:
        outcome.refused.append((row, answer.problem.model_dump(mode="json", exclude_none=True)))


def _problem(name: str, detail: str) -> dict[str, Any]:
    return problem_named(name, detail).model_dump(mode="json", exclude_none=True)
