"""Bulk actions: one verb or edit for many tasks, in portions, each task with its own answer."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import Field

from treadle.wire.bulk import BulkAction
from treadle.wire.edits import TaskEdit
from treadle.wire.fields import MOST_OF_REQUEST, Request
from treadle.wire.ids import TaskId, is_uuid
from treadle.wire.status import Status
from treadle_server.access.checks import visibility_of
from treadle_server.access.principal import Principal
from treadle_server.domain.tasks import Task
from treadle_server.engine.commands import Each, Steer
from treadle_server.errors import (
    StoreUnavailable,
    TaskConflict,
    TaskNotFound,
    TooManyRequests,
    TreadleError,
    UniqueKeyHeld,
    ValidationFailed,
)
from treadle_server.operations import values
from treadle_server.operations.context import OperationContext
from treadle_server.operations.editing import edit_command
from treadle_server.store.read import tasks as read_tasks
from treadle_server.store.read.filters import seen

CHUNK = 500
"""The most tasks of one command of a bulk action, so that it never holds the writer for long."""

MOST_MATCHED = 100_000
"""The most tasks that one bulk action by filter acts on; its answer says how many it matched."""

MOST_PROBLEMS = 1000
"""The most problems in the answer to a bulk action by filter; for named tasks it has all of them."""


class Edits(Request):
    """Edits of many tasks; each is validated by itself."""

    edits: list[Any] = Field(min_length=1, max_length=MOST_OF_REQUEST)


T = TypeVar("T")
TaskOutcome = tuple[TaskId, Task | TreadleError]


@dataclass(slots=True)
class _BulkOutcomes:
    """The outcome of each task."""

    versions: dict[str, int] = field(default_factory=dict)
    problems: dict[TaskId, TreadleError] = field(default_factory=dict)

    def take(self, outcomes: Sequence[TaskOutcome]) -> None:
        for task_id, outcome in outcomes:
            if isinstance(outcome, TreadleError):
                self.problems[task_id] = outcome
            else:
                self.versions[task_id] = outcome.version

    async def shown(self, ctx: OperationContext, action: str, *, most: int | None = None) -> dict[str, Any]:
        """Return them as `BulkResult`, with the present version and status of each task that was not changed."""
        told = dict(list(self.problems.items())[:most])
        # A task that was not found may exist but be hidden, so nothing is said about it.
        now = await _states(ctx, [task_id for task_id, error in told.items() if not isinstance(error, TaskNotFound)])
        return {
            "action": action,
            "matched": len(self.versions) + len(self.problems),
            "changed": len(self.versions),
            "versions": self.versions,
            "problems": [_problem(task_id, error, now.get(task_id)) for task_id, error in told.items()],
            "problems_are_capped": len(told) < len(self.problems),
        }


async def bulk(ctx: OperationContext, principal: Principal, wanted: BulkAction) -> dict[str, Any]:
    """Apply the verb in portions and return `BulkResult`.

    Raises `StoreUnavailable` or `TooManyRequests` if the server gave up before it changed anything.
    """
    return await act_on(ctx, principal, wanted, await _ids(ctx, principal, wanted))


async def act_on(
    ctx: OperationContext, principal: Principal, wanted: BulkAction, ids: Sequence[TaskId]
) -> dict[str, Any]:
    """Apply the verb to these tasks, in portions, and return `BulkResult`. Raises the same as `bulk`."""
    versions = {TaskId(task_id): version for task_id, version in (wanted.if_versions or {}).items()}
    to, result = None if wanted.status is None else Status(wanted.status), values.text_or_none(wanted.result)

    async def act(ids: Sequence[TaskId]) -> Sequence[TaskOutcome]:
        ones = [
            Steer(
                principal=principal,
                task_id=task_id,
                action=wanted.action,
                if_version=versions.get(task_id),
                to=to,
                result=result,
                error=wanted.error,
            )
            for task_id in ids
        ]
        return list(zip(ids, await ctx.engine.run(Each(ones)), strict=True))

    outcomes = await _in_portions(ids, act, of=lambda task_id: task_id)
    return await outcomes.shown(ctx, wanted.action, most=None if wanted.ids else MOST_PROBLEMS)


async def bulk_edit(ctx: OperationContext, principal: Principal, given: Edits) -> dict[str, Any]:
    """Apply the edits in portions and return `BulkResult`.

    Raises `StoreUnavailable` or `TooManyRequests` if the server gave up before it changed anything, and
    `ValidationFailed` if an edit has no id of its own, or if none of the edits is valid.
    """
    wanted = await _by_task_id(given.edits)

    async def edit(edits: Sequence[TaskEdit]) -> Sequence[TaskOutcome]:
        repaid = [TaskId(one.id) for one in edits if one.payload is not None]
        async with ctx.engine.store.read() as connection:
            known = await read_tasks.by_ids(connection, repaid)
        # Commands that wait at the same time are written in one transaction.
        outcomes = await asyncio.gather(*(_edit(ctx, principal, one, known.get(TaskId(one.id))) for one in edits))
        given_up = [error for _, error in outcomes if isinstance(error, StoreUnavailable | TooManyRequests)]
        if given_up and all(isinstance(outcome, TreadleError) for _, outcome in outcomes):
            raise given_up[0]
        return outcomes

    good = [one for one in wanted.values() if isinstance(one, TaskEdit)]
    outcomes = await _in_portions(good, edit, of=lambda one: TaskId(one.id))
    outcomes.take([(task_id, one) for task_id, one in wanted.items() if isinstance(one, TreadleError)])
    return await outcomes.shown(ctx, "edit")


async def _by_task_id(given: list[Any]) -> dict[TaskId, TaskEdit | TreadleError]:
    """Return each edit, or why it is invalid, by the id of its task."""
    edits = await values.each(TaskEdit, given)
    named: dict[TaskId, TaskEdit | TreadleError] = {}
    wrong = [one for one in edits if isinstance(one, TreadleError)]
    for raw, one in zip(given, edits, strict=True):
        task_id = raw.get("id") if isinstance(raw, dict) else None
        if isinstance(one, TreadleError) and (not isinstance(task_id, str) or not is_uuid(task_id.lower())):
            raise one
        named[TaskId(str(task_id).lower())] = one
    if len(named) < len(edits):
        raise ValidationFailed("edits: an id is given twice; give one edit for each task")
    if len(wrong) == len(edits):
        raise wrong[0]
    return named


async def _edit(ctx: OperationContext, principal: Principal, wanted: TaskEdit, known: Task | None) -> TaskOutcome:
    task_id = TaskId(wanted.id)
    try:
        return task_id, await ctx.engine.run(await edit_command(ctx, principal, task_id, wanted, known))
    except TreadleError as error:
        return task_id, error


async def _in_portions(
    wanted: Sequence[T], act: Callable[[Sequence[T]], Awaitable[Sequence[TaskOutcome]]], *, of: Callable[[T], TaskId]
) -> _BulkOutcomes:
    """Act on one portion after the other; if the server gives up in between, that is the outcome of the rest.

    Raises `StoreUnavailable` or `TooManyRequests` if it gives up before it changed anything.
    """
    outcomes = _BulkOutcomes()
    for start in range(0, len(wanted), CHUNK):
        try:
            outcomes.take(await act(wanted[start : start + CHUNK]))
        except (StoreUnavailable, TooManyRequests) as error:
            if not outcomes.versions:
                raise
            outcomes.take([(of(one), error) for one in wanted[start:]])
            break
    return outcomes


def _problem(task_id: TaskId, error: TreadleError, now: tuple[int, str] | None) -> dict[str, Any]:
    match error:
        case UniqueKeyHeld():
            outcome = "refused"
        case TaskConflict():
            outcome = "changed"
        case TaskNotFound():
            outcome = "missing"
        case StoreUnavailable() | TooManyRequests():
            outcome = "untried"
        case _:
            outcome = "refused"
    version, status = now or (None, None)
    return {
        "id": task_id,
        "outcome": outcome,
        "type": error.type.uri,
        "detail": error.detail,
        "version": version,
        "status": status,
    }


async def _states(ctx: OperationContext, ids: Sequence[TaskId]) -> dict[TaskId, tuple[int, str]]:
    """Return the version and status of each task; nothing if the store can't be read now."""
    if not ids:
        return {}
    try:
        async with ctx.engine.store.read() as connection:
            return await read_tasks.states(connection, ids)
    except StoreUnavailable:
        # The changes are committed, so the answer must be sent all the same.
        return {}


async def _ids(ctx: OperationContext, principal: Principal, wanted: BulkAction) -> list[TaskId]:
    if wanted.ids is not None:
        return [TaskId(task_id) for task_id in dict.fromkeys(wanted.ids)]
    assert wanted.filter is not None
    meant = seen(wanted.filter, visibility_of(principal))
    async with ctx.engine.store.read() as connection:
        return await read_tasks.matching_ids(connection, meant, MOST_MATCHED)
