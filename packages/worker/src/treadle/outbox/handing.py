"""Handing rows to the server, and what its answer to each of them means."""

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
    TreadleError,
    Unauthorized,
    problem_named,
)
from treadle.ids import id_text
from treadle.outbox.rows import MOST_CHARACTERS, Row, not_utf8
from treadle.wire.amounts import counted
from treadle.wire.names import InvalidRoom, parse_room

SECONDS = 60.0
"""Seconds to wait for a batch's answers, or for those of each million characters if a single row has more; after that
the same rows may be sent again."""

_OF_ALL = (Unauthorized, StoreUnavailable, RouteNotFound, MethodNotAllowed)
"""Problems that are not about a single row: with them all rows wait."""

_OF_NOW = (TooManyRequests, SchemaConflict, LimitFull)
"""Problems of a row that may be gone a moment later."""

_NO_TASK = problem_named("task-not-found", "").type

HandingAnswer = dict[str, Any] | BaseException


@dataclass(slots=True)
class HandingOutcome:
    """What became of the rows of a batch."""

    handed: list[Row] = field(default_factory=list)
    """Rows whose tasks the server has."""
    refused: list[tuple[Row, dict[str, Any]]] = field(default_factory=list)
    """Rows that the server has refused for good, with the problems."""
    left: list[tuple[Row, BaseException]] = field(default_factory=list)
    """Rows to be tried again later, with the errors."""
    is_late: bool = False
    """Whether the time was up before everything was answered."""


async def hand_over(client: Client, rows: Sequence[Row]) -> HandingOutcome:
    """Submit rows in their order, registering missing jobs; a refused row does not affect the others.

    If it takes too long, the remaining rows are left. Raises errors that are not about a single row:
    `ConnectionFailed`, `Unauthorized`, `StoreUnavailable` and other `TreadleError`s; some rows may have been handed
    over by then, and are the same tasks when they are sent again.
    """
    outcome = HandingOutcome()
    characters = sum(len(row.body) for row in rows)
    seconds = SECONDS * max(1.0, characters / MOST_CHARACTERS)
    ends_at = asyncio.get_running_loop().time() + seconds
    for room, several in groupby(rows, key=lambda row: row.room):
        await _submit(client, room, list(several), outcome, ends_at)
    if outcome.is_late:
        what = counted(len(rows), "row") if len(rows) > 1 else f"task {rows[0].id} of {characters:,} characters"
        late = ConnectionFailed(f"the server took more than {seconds:.0f} s for {what}")
        if not (outcome.handed or outcome.refused):
            raise late
        noted = {row.seq for row in outcome.handed} | {row.seq for row, _ in (*outcome.refused, *outcome.left)}
        outcome.left += [(row, late) for row in rows if row.seq not in noted]
    return outcome


def dependencies(row: Row) -> set[str]:
    """Return the ids of the tasks that a row's task depends on, in lower case; none if its body can't be read."""
    if not isinstance(row.body, str) or '"depends_on"' not in row.body:
        return set()
    try:
        named = json.loads(row.body)["depends_on"].values()
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
        return set()
    return {id_text(one) for said in named for one in (said if isinstance(said, list) else [said])}


def leave_dependents(outcome: HandingOutcome, behind: Sequence[Row]) -> None:
    """Leave the rows behind those that they depend on, and those that were refused because these had to wait."""
    outcome.left += [(row, _too_early(row)) for row in behind]
    there = {id_text(row.id) for row in (*outcome.handed, *(row for row, _ in outcome.left))}
    refused, outcome.refused = sorted(outcome.refused, key=lambda one: one[0].seq), []
    for row, problem in refused:
        if problem.get("type") == _NO_TASK and dependencies(row) & there:
            outcome.left.append((row, _too_early(row)))
            there.add(id_text(row.id))
        else:
            outcome.refused.append((row, problem))


def _too_early(row: Row) -> TreadleError:
    return TreadleError(f"task {row.id} depends on one that is not handed over yet")


async def _submit(client: Client, room: str, rows: list[Row], outcome: HandingOutcome, ends_at: float) -> None:
    answers = await _asked(client, room, rows, outcome, ends_at)
    # Once one row's registration has registered a job, all rows of it can go: another program's rows have none.
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
    """Send rows of one room, and return those that were answered in time, with their answers.

    Rows that are not valid submits are refused here.
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
            outcome.refused.append(
                (row, _problem("validation-error", f"the row's body is not a valid submit: {error}"))
            )
    if outcome.is_late:
        return []
    opening = client.opening()
    answers: list[asyncio.Future[dict[str, Any]]] = []
    outcome.is_late = True
    with suppress(TimeoutError):
        async with asyncio.timeout_at(ends_at):
            await opening.run(_gathered(opening.batcher, room, items, answers))
            outcome.is_late = False
    # A request that is refused as a whole is sent again in halves, so some may have been answered when the time was up.
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
    """Register the jobs of these rows, and return the server's refusals by registration."""
    refusals: dict[str | None, ProblemError | InvalidArguments] = {}
    for registration, why in {row.registration: why for row, why in missing}.items():
        try:
            await client.call("register", _asked_of(registration))
        except Forbidden:
            refusals[registration] = why
        except SchemaConflict:
            continue  # it is registered by now, in another form: the submit is checked against that
        except _OF_ALL:
            raise
        except (ProblemError, InvalidArguments) as error:
            refusals[registration] = error
        except (ValueError, RecursionError) as error:
            refusals[registration] = InvalidArguments(f"the row's registration is not valid: {error}")
    return refusals


def _asked_of(registration: str | None) -> dict[str, Any]:
    """Return the body of a registration; raises `ValueError`, and `RecursionError` when it is nested too deeply."""
    asked = json.loads(registration or "{}")
    if not isinstance(asked, dict):
        raise ValueError("it must be an object with room, category, name and schema")  # noqa: TRY004 - as its JSON
    parse_room(asked.get("room"))  # type: ignore[arg-type] # anything but a str is not a room
    return asked


def _item(row: Row) -> dict[str, Any]:
    """Return the item of a row's submit; raises `ValueError`, and `RecursionError` when it is nested too deeply."""
    body = json.loads(row.body)
    if not isinstance(body, dict) or body.keys() & {"id", "job"}:
        raise ValueError('it must be an object such as {"payload": {}}, without id and job')
    return {"id": row.id, "job": row.job, **body}


def _note(outcome: HandingOutcome, row: Row, answer: HandingAnswer) -> None:
    """Record what an answer means for its row; raises an answer that is not about the row."""
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
