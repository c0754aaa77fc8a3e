"""Removal of ended tasks over HTTP; for superusers only."""

import asyncio
import time
from collections import Counter
from datetime import timedelta
from typing import Any

from starlette.responses import Response

from treadle.wire.prune import Prune
from treadle.wire.status import TERMINAL, Status
from treadle_server.api.answers import answer
from treadle_server.api.call import Call
from treadle_server.errors import ValidationFailed
from treadle_server.operations.context import OperationContext
from treadle_server.services.retention import RetentionWalk, cutoffs_of
from treadle_server.store.transaction.prune import Cutoffs, counted

PORTION_SECONDS = 5.0
"""How long one request removes tasks; the client repeats it until all are gone, and can show its progress."""


async def prune(call: Call) -> Response:
    """Remove ended tasks that are past their retention, for some seconds; with `dry_run` only count them."""
    wanted: Prune = call.body
    cutoffs = _cutoffs(call.ctx, wanted)
    if wanted.dry_run:
        async with call.ctx.engine.store.read() as connection:
            groups = await counted(connection, cutoffs)
        return _answer(Counter({(job, status): n for job, status, n in groups}), dry_run=True, done=True)
    walk = RetentionWalk(call.ctx.engine, cutoffs, call.ctx.artifacts.objects)
    done = await _remove(walk)
    return _answer(walk.removed, dry_run=False, done=done)


async def _remove(walk: RetentionWalk) -> bool:
    """Walk for a while; return whether the walk is complete."""
    until = time.monotonic() + PORTION_SECONDS
    while await walk.step() is not None:
        if time.monotonic() >= until:
            return False
        await asyncio.sleep(walk.pace.rest)
    return True


def _cutoffs(ctx: OperationContext, wanted: Prune) -> Cutoffs:
    """Return by status before when tasks must have ended. Raises `ValidationFailed` if no status has a limit."""
    statuses = set(wanted.status or TERMINAL)
    if wanted.older_than is not None:
        ages = dict.fromkeys(statuses, timedelta(seconds=wanted.older_than))
    else:
        ages = {status: age for status, age in ctx.settings.retention.items() if status in statuses}
    if not ages:
        raise ValidationFailed("older_than: is missing; give it, as the server's settings keep these tasks for ever")
    return cutoffs_of(ages, ctx.now())


def _answer(groups: Counter[tuple[str, Status]], *, dry_run: bool, done: bool) -> Response:
    shown: list[dict[str, Any]] = [
        {"job": job, "status": status, "tasks": n} for (job, status), n in sorted(groups.items())
    ]
    return answer({"dry_run": dry_run, "tasks": groups.total(), "groups": shown, "done": done})
