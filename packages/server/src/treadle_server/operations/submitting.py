"""Turns submissions on the wire into tasks in the store."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from hashlib import sha256
from itertools import repeat
from time import monotonic
from typing import TYPE_CHECKING, Any

import orjson

from treadle.wire.ids import TaskId
from treadle.wire.options import OF_JOB
from treadle.wire.sealed import identities, seal_of
from treadle.wire.status import Status
from treadle.wire.tasks import MOST_BAGGAGE, MOST_TRACE_STATE, TaskOfMany, TaskSubmit
from treadle_server.access.checks import check_create, check_task_scopes, visibility_of
from treadle_server.access.principal import Principal
from treadle_server.access.scopes import check_new
from treadle_server.domain.instants import instant
from treadle_server.domain.jobs import Job
from treadle_server.domain.tasks import Task, check_times
from treadle_server.domain.visibility import BLIND, Visibility
from treadle_server.engine.commands import SchemaMoved, Submission, Submit, SubmitEach, SubmitOutcome, Submitted
from treadle_server.engine.commands.submit import UNCHECKED, rows_of
from treadle_server.errors import (
    Forbidden,
    InvalidPayload,
    StoreUnavailable,
    TooManyRequests,
    TreadleError,
    ValidationFailed,
)
from treadle_server.operations import values
from treadle_server.operations.binding import bind, bonds_of
from treadle_server.operations.checking import TRIES, Checked, refusals, unstable
from treadle_server.operations.context import OperationContext
from treadle_server.operations.portions import BREATH_SECONDS, each, filled
from treadle_server.operations.schemas import schema_without
from treadle_server.operations.task_lists import PLAIN, PlainTask
from treadle_server.store.read import tasks as read_tasks

if TYPE_CHECKING:
    from hashlib import _Hash as Digest

_OPTIONS = frozenset(OF_JOB)

_TRACE = frozenset({"traceparent", "tracestate", "baggage"})
"""Not part of a submission's content: a submit that is sent again may have another trace."""

_OF_NOTHING = (f"-{0:032}-", f"-{0:016}-")
"""A trace id and a span id of zeros: by W3C's Trace Context, a context with either is ignored."""


async def submit(
    ctx: OperationContext, principal: Principal, room: str, wanted: Sequence[tuple[str, TaskSubmit | PlainTask]]
) -> list[Submitted]:
    """Check payloads against their jobs' schemas and submit the tasks, each with its job's full name, all or none.

    Raises `Forbidden`, `JobNotFound`, `InvalidPayload`, `ValidationFailed`, `TaskConflict`, `InternalJobNotConfigured`,
    `TooManyRequests` or `StoreUnavailable`; for dependencies also `TaskNotFound`, `FlowNotFound` or `DependencyCycle`;
    for limits `LimitNotFound` or `LimitFull`; and `SchemaConflict` if a job's schema changes at every try.
    """
    bonds = bonds_of([item for _, item in wanted])
    names = {name for name, _ in wanted}
    check_create(principal, room, names)
    _check_scopes(principal, (item for _, item in wanted))
    for _ in range(TRIES):
        seen = visibility_of(principal)
        jobs = {name: await ctx.catalog.find(name, room=room, visibility=seen) for name in names}
        try:
            items = await _checked(ctx, room, [(jobs[name], item) for name, item in wanted])
        except (InvalidPayload, ValidationFailed):
            if await ctx.catalog.moved(jobs.values()):
                continue
            raise
        bind(items, bonds)
        command = Submit(principal=principal, room=room, items=items, order=None if bonds is None else bonds.order)
        try:
            done = await ctx.engine.run(command)
            now = await _handed_over(ctx, done)
            return [_as_of(one, now) for one in done] if now else done
        except SchemaMoved:
            for name in jobs:
                ctx.catalog.forget(name)
    raise unstable()


async def submit_each(
    ctx: OperationContext, principal: Principal, room: str, wanted: Sequence[TaskOfMany | PlainTask]
) -> list[SubmitOutcome]:
    """Submit tasks, each by itself; return their outcomes.

    Raises `TooManyRequests` or `StoreUnavailable` for all of them.
    """
    taken: dict[int, SubmitOutcome] = _forbidden(principal, room, wanted)
    for _ in range(TRIES):
        if len(taken) == len(wanted):
            break
        items = await _checked_each(ctx, room, wanted, taken, visibility_of(principal))
        done = await _run_each(ctx, principal, room, list(items.values()))
        for i, outcome in zip(items, done, strict=True):
            if isinstance(outcome, SchemaMoved):
                ctx.catalog.forget(wanted[i].job)
            else:
                taken[i] = outcome
    now = await _handed_over(ctx, list(taken.values()))
    outcomes = [taken.get(i) or unstable() for i in range(len(wanted))]
    return [_as_of(one, now) if isinstance(one, Submitted) else one for one in outcomes] if now else outcomes


async def _handed_over(ctx: OperationContext, taken: Sequence[SubmitOutcome]) -> Mapping[TaskId, Task]:
    """Wait until tasks that the server runs itself are with their executors; return them as they are then."""
    if ctx.internal is None:
        return {}
    mine = {one.task.id for one in taken if isinstance(one, Submitted) and one.task.is_internal}
    return await ctx.internal.handed_over(mine) if mine else {}


def _as_of(one: Submitted, now: Mapping[TaskId, Task]) -> Submitted:
    """Return the outcome of a submit with the task as it is now."""
    task = now.get(one.task.id, one.task)
    return replace(one, task=task, position=one.position if task.status is Status.PENDING else None)


async def _run_each(
    ctx: OperationContext, principal: Principal, room: str, items: list[Submission]
) -> list[SubmitOutcome | SchemaMoved]:
    """Submit the items in commands of no more rows than one transaction may write.

    The commands run one after the other: when all were queued at once, others waited 0.6 to 2.3 s for ten thousand
    tasks; now they wait 0.2. If the server gives up in between, that is the outcome of the rest.
    """
    taken: list[SubmitOutcome | SchemaMoved] = []
    for portion in filled(items, ctx.engine.most_rows, rows_of):
        try:
            taken += await ctx.engine.run(SubmitEach(principal=principal, room=room, items=portion))
        except (StoreUnavailable, TooManyRequests) as error:
            if not taken:
                raise
            return [*taken, *repeat(error, len(items) - len(taken))]
    return taken


def _check_scopes(principal: Principal, wanted: Iterable[TaskSubmit | PlainTask]) -> None:
    """Refuse tasks with invalid scopes, or with scopes that their submitter does not hold (C8)."""
    for item in wanted:
        if not isinstance(item, PlainTask) and item.scopes:
            check_task_scopes(principal, check_new(item.scopes))


def _forbidden(principal: Principal, room: str, wanted: Sequence[TaskOfMany | PlainTask]) -> dict[int, SubmitOutcome]:
    """Return the errors of the tasks that the principal may not submit, by their places."""
    refused: dict[str, TreadleError] = {}
    for name in {item.job for item in wanted}:
        try:
            check_create(principal, room, [name])
        except Forbidden as error:
            refused[name] = error
    taken: dict[int, SubmitOutcome] = {}
    for i, item in enumerate(wanted):
        if refused and item.job in refused:
            taken[i] = refused[item.job]
        elif not isinstance(item, PlainTask) and item.scopes:
            try:
                _check_scopes(principal, [item])
            except (Forbidden, ValidationFailed) as error:
                taken[i] = error
    return taken


async def _checked(
    ctx: OperationContext, room: str, wanted: Sequence[tuple[Job, TaskSubmit | PlainTask]]
) -> list[Submission]:
    """Return the submissions, all of them or none. Raises the same as `submit`."""
    texts = await each(lambda one: values.text_of(one[1].payload), wanted)
    checked = [(_job_to_check(*one), one[1].payload, text) for one, text in zip(wanted, texts, strict=True)]
    there: frozenset[str] = frozenset()
    refused = await refusals(ctx.catalog, checked, all_or_none=True)
    if refused and (there := await _existing_ids(ctx, [item for _, item in wanted])):
        new = [i for i, (_, item) in enumerate(wanted) if item.id not in there]
        found = await refusals(ctx.catalog, [checked[i] for i in new], all_or_none=True)
        refused = {new[i]: error for i, error in found.items()}
    for i, error in refused.items():
        if len(wanted) == 1 or not isinstance(error, InvalidPayload):
            raise error
        raise InvalidPayload(f"tasks.{i}.{error.detail}", errors=error.errors)
    items = await each(lambda i: build(wanted[i][0], room, wanted[i][1], texts[i]), range(len(wanted)))
    for item in items:
        if item.id in there:
            item.schema_version = UNCHECKED
    return items


async def _existing_ids(ctx: OperationContext, wanted: Iterable[TaskSubmit | PlainTask]) -> frozenset[str]:
    """Return the ids of the tasks that exist already, whose payloads may not match the present schemas.

    They were checked when they were submitted. A schema may have been replaced since, but the tasks are the same (G6).
    """
    if not (ids := {TaskId(item.id) for item in wanted if item.id is not None}):
        return frozenset()
    async with ctx.engine.store.read_loosely() as connection:
        return frozenset(await read_tasks.states(connection, ids))


async def _checked_each(
    ctx: OperationContext,
    room: str,
    wanted: Sequence[TaskOfMany | PlainTask],
    taken: dict[int, SubmitOutcome],
    visibility: Visibility | None,
) -> dict[int, Submission]:
    """Return the submissions of tasks that have no outcome yet, by their places; refused ones get their outcome.

    Tasks that were refused because of a job that has changed meanwhile are left out, to be tried again.
    """
    items: dict[int, Submission] = {}
    found: dict[int, Checked] = {}
    jobs: dict[int, Job] = {}
    refused: dict[int, TreadleError] = {}
    breath = monotonic() + BREATH_SECONDS
    for i, item in enumerate(wanted):
        if i in taken:
            continue
        if monotonic() > breath:
            await asyncio.sleep(0)
            breath = monotonic() + BREATH_SECONDS
        try:
            # A similar name is looked for once: the names of all of them may be unknown.
            seen = BLIND if refused else visibility
            jobs[i] = job = await ctx.catalog.find(item.job, room=room, visibility=seen)
            text = values.text_of(item.payload)
            submission, partly = build(job, room, item, text), job
            if not isinstance(item, PlainTask):
                partly = _job_to_check(job, item)
                bind([submission], bonds_of([item]))
            items[i], found[i] = submission, (partly, item.payload, text)
        except TreadleError as refusal:
            refused[i] = refusal
    places = list(found)
    refused |= {places[i]: error for i, error in (await refusals(ctx.catalog, list(found.values()))).items()}
    there = await _existing_ids(ctx, [wanted[i] for i in refused])
    moved = await ctx.catalog.moved(doubted) if (doubted := [jobs[i] for i in refused if i in jobs]) else set()
    for i, error in refused.items():
        if i in items and items[i].id in there:
            items[i].schema_version = UNCHECKED
            continue
        items.pop(i, None)
        if wanted[i].job not in moved:
            taken[i] = error
    return items


def _job_to_check(job: Job, item: TaskSubmit | PlainTask) -> Job:
    """Return the job to check the payload against: without the arguments that come from other tasks' results.

    Raises `ValidationFailed` for an argument that the job does not have.
    """
    if isinstance(item, PlainTask) or not item.arguments_from or job.encrypted:
        return job
    return replace(job, schema=schema_without(job.schema, frozenset(item.arguments_from)))


def build(job: Job, room: str, wanted: TaskSubmit | PlainTask, payload: str) -> Submission:
    """Return the submission of a task, with its payload as JSON text.

    Raises `ValidationFailed` for a time that can't be stored, or a deadline before the task is due.
    """
    if isinstance(wanted, PlainTask) or wanted.model_fields_set <= PLAIN:
        hashes = _content_hashes(job, wanted.payload, _hash_of_plain(job.full_name, room))
        return Submission(
            job_name=job.full_name,
            payload=payload,
            content_hash=hashes[0],
            older_hashes=hashes[1:],
            id=None if wanted.id is None else TaskId(wanted.id),
            schema_version=job.schema_version,
            is_bare=True,
        )
    given = wanted.model_dump(exclude_unset=True, exclude_none=True, exclude={"payload", "job", *_TRACE})
    due_at = instant(wanted.scheduled_at, "scheduled_at")
    deadline = instant(wanted.deadline, "deadline")
    check_times(due_at, deadline, due="scheduled_at")
    # The same instant is the same content, in whatever time zone it was written.
    instants = {"scheduled_at": due_at, "deadline": deadline}
    content = {**given, **{name: at for name, at in instants.items() if at is not None}, "room": room}
    hashes = _content_hashes(job, wanted.payload, _hash_of_options(job.full_name, content))
    return Submission(
        job_name=job.full_name,
        payload=payload,
        content_hash=hashes[0],
        older_hashes=hashes[1:],
        options={name: value for name, value in given.items() if name in _OPTIONS},
        id=None if wanted.id is None else TaskId(wanted.id),
        delay=wanted.delay,
        due_at=due_at,
        target=wanted.target,
        deadline=deadline,
        tags=values.text_or_none(wanted.tags),
        scopes=values.text_or_none(wanted.scopes),
        unique_key=wanted.unique_key,
        limits=given.get("limits"),
        trace=_trace(wanted),
        on_dependency_failure=wanted.on_dependency_failure,
        arguments_from=values.text_or_none(wanted.arguments_from),
        schema_version=job.schema_version,
    )


def _trace(wanted: TaskSubmit) -> str | None:
    """Return the submit's trace context as one text; None if it has none, or one that W3C has ignored."""
    if wanted.traceparent is None or any(zeros in wanted.traceparent for zeros in _OF_NOTHING):
        return None
    state = _leading(wanted.tracestate, MOST_TRACE_STATE)
    baggage = _leading(wanted.baggage, MOST_BAGGAGE)
    return wanted.traceparent + (f" {state}" if state or baggage else "") + (f"\n{baggage}" if baggage else "")


def _leading(members: str | None, most: int) -> str:
    """Return as many of the comma-separated members as fit into `most` characters."""
    return members if members is not None and len(members) <= most else (members or "")[: most + 1].rpartition(",")[0]


def _content_hashes(job: Job, payload: dict[str, Any], begun: "Digest") -> tuple[bytes, ...]:
    """Return the hashes by which two submissions with one id are the same: job, room, payload and options (G6).

    `begun` has hashed the job, room and options. A sealed payload is represented by the digest of the plain one, with
    the present key and then with each older key: one hash for each.
    """
    seal = seal_of(payload) if job.encrypted else None
    payloads = [_canonical(payload)] if seal is None else [known.encode() for known in identities(seal)]
    hashes = []
    for said in payloads:
        digest = begun.copy()
        digest.update(said)
        hashes.append(digest.digest())
    return tuple(hashes)


def _hash_of_options(job_name: str, content: dict[str, Any]) -> "Digest":
    """Return the hash of a submission up to its payload."""
    options = {name: value for name, value in content.items() if name != "id"}
    digest = sha256(job_name.encode())
    try:
        said = orjson.dumps(options, option=orjson.OPT_SORT_KEYS | orjson.OPT_UTC_Z)
    except TypeError:
        # orjson takes no integer beyond 64 bits; of the options only tags may contain one.
        options["tags"] = values.sorted_text(options["tags"])
        said = orjson.dumps(options, option=orjson.OPT_SORT_KEYS | orjson.OPT_UTC_Z)
    digest.update(said)
    return digest


@lru_cache(maxsize=1024)
def _hash_of_plain(job_name: str, room: str) -> "Digest":
    """Return the same for a task without options."""
    return _hash_of_options(job_name, {"room": room})


def _canonical(payload: dict[str, Any]) -> bytes:
    try:
        return orjson.dumps(payload, option=orjson.OPT_SORT_KEYS)
    except TypeError:
        # orjson takes no integer beyond 64 bits.
        return values.sorted_text(payload).encode()
