"""Decide which of the tasks with limits may be claimed: the first ones of each line that fit, and no others.

Only those have `blocked` false, so a claim never reads the others, however many wait. That they fit is a hint: they use
nothing before they are claimed, and the claim checks again (docs/decisions/0025).
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from treadle_server.domain.limits import BucketId, Gate, Line, bucket_ids_of, text_of_bucket_id
from treadle_server.domain.tasks import Task
from treadle_server.store.base import Tx
from treadle_server.store.transaction import limit_lines
from treadle_server.store.transaction import limit_rows as rows
from treadle_server.store.transaction.limit_waits import awaited_among

MOST_OPEN = 200
"""Most tasks of a line that are claimable at once."""

SOON = timedelta(seconds=0.1)
"""How long after which a line is decided again if another server had locked one of its tasks."""


@dataclass(slots=True)
class Touched:
    """The changes to tasks with limits, by a batch and by time."""

    seqs: set[int] = field(default_factory=set)
    """Tasks of which a run may be over, or which may be waiting again."""
    lines: set[Line] = field(default_factory=set)
    """Lines in which a task was added, removed or moved."""
    due: set[BucketId] = field(default_factory=set)
    """Buckets whose `opens_at` has come."""
    returned: list[str] = field(default_factory=list)
    """The `limit_key` of each run that was handed back before it started."""

    def __bool__(self) -> bool:
        return bool(self.seqs or self.lines or self.due or self.returned)


@dataclass(slots=True)
class Decision:
    """The result of a decision about lines."""

    woken: set[int] = field(default_factory=set)
    """Lanes in which a task became claimable."""
    parked: set[int] = field(default_factory=set)
    """Lanes in which a claimable task has to wait."""
    opens_at: datetime | None = None
    """When the first of the lines that now wait for a token may go on."""


async def decide(tx: Tx, touched: Touched, now: datetime) -> Decision:
    """Decide about the lines that a batch has touched, and those that it or time made room for."""
    await limit_lines.park_for_limits(tx, touched.seqs)
    await rows.lock_limits(tx)
    bucket_ids = touched.due | await rows.delete_ended_uses(tx, touched.seqs)
    gate = Gate()
    await _know(tx, gate, [*touched.returned, *(line.limit_key for line in touched.lines)], now)
    for limit_key in touched.returned:
        gate.give_back(limit_key)
        bucket_ids.update(gate.bucket_ids[limit_key])
    made = Decision()
    await _decide(tx, gate, touched.lines, now, made)
    await _open(tx, gate, bucket_ids, now, made)
    # Also those that have no token yet; otherwise they would stay due for ever.
    gate.changed |= gate.buckets.keys() & {bucket_id.bucket for bucket_id in touched.due}
    await _write(tx, gate, made, now)
    return made


async def open_gate(tx: Tx, heads: Iterable[Task], now: datetime) -> Gate | None:
    """Return the room left in the limits of tasks that may be claimed next; None when they have no limits."""
    keys = {task.limit_key for task in heads if task.limit_key is not None}
    if not keys:
        return None
    await rows.lock_limits(tx)
    gate = Gate()
    await _know(tx, gate, keys, now)
    return gate


async def close_gate(tx: Tx, gate: Gate, now: datetime) -> Decision:
    """Write what claims have taken, and decide about their lines."""
    await rows.insert_uses(tx, [(task.seq, task.run_id, *bucket_id, weight) for task, bucket_id, weight in gate.taken])
    lines = {Line(task.lane, task.limit_key) for task, _, _ in gate.taken if task.limit_key is not None}
    made = Decision()
    await _decide(tx, gate, lines | gate.shut, now, made)
    await _write(tx, gate, made, now)
    return made


async def _know(tx: Tx, gate: Gate, limit_keys: Iterable[str], now: datetime) -> None:
    """Read the buckets that the gate does not have yet."""
    new = {key: bucket_ids_of(key) for key in limit_keys if key not in gate.bucket_ids}
    gate.bucket_ids |= new
    if missing := [one for bucket_ids in new.values() for one in bucket_ids if one.bucket not in gate.buckets]:
        gate.buckets |= await rows.read_buckets(tx, missing, now)


async def _write(tx: Tx, gate: Gate, made: Decision, now: datetime) -> None:
    # Lines of other keys may wait for the same bucket: no more tasks of a lane are let through than there are tokens.
    known = (number for number in gate.changed | gate.looked if number in gate.buckets)
    for number in await awaited_among(tx, [number for number in known if gate.buckets[number].may_lack_token]):
        gate.buckets[number].is_waited_for = True
        gate.changed.add(number)
    await rows.write_tokens(tx, {num: gate.buckets[num] for num in gate.changed}, now)
    made.opens_at = gate.opens_at(now)


async def _decide(tx: Tx, gate: Gate, lines: Collection[Line], now: datetime, made: Decision) -> set[Line]:
    """Make the first tasks of each line that fit claimable; return the lines of which none does.

    The gate must have the lines' buckets.
    """
    if not lines:
        return set()
    most = min(MOST_OPEN, 1 + max(gate.room(line.limit_key) for line in lines))
    wanted: set[int] = set()
    stuck: set[Line] = set()
    parked: list[limit_lines.Parked] = []
    first, others = await limit_lines.take_lines(tx, lines, most)
    whole: list[Line] = []
    present: set[int] = set()
    for line, found in first.items():
        if not found:
            stuck.add(line)
            whole.append(line)
            continue
        present.update(task.seq for task in found if task.is_open)
        waiting = found[:most]
        fit, full = gate.fitting(line.limit_key, [task.limits for task in waiting])
        wanted.update(task.seq for task in waiting[:fit])
        if not fit:
            stuck.add(line)
        if full is not None:
            parked.append(limit_lines.Parked(line, full, waiting[fit]))
            gate.note_waiting(full, begins=True)
        elif len(waiting) < most:
            whole.append(line)
    made.parked |= await limit_lines.set_parked(tx, present - wanted, parked=True)
    made.woken |= await limit_lines.set_parked(tx, wanted - present, parked=False)
    # The server that has locked one of these may only have read it, and then does not decide about the line.
    parked += [
        limit_lines.Parked(line, bucket_id, others[line])
        for line in others.keys() & whole
        if (bucket_id := gate.look_again(line.limit_key, now + SOON)) is not None
    ]
    await limit_lines.write_parked(tx, parked)
    return stuck


async def _open(tx: Tx, gate: Gate, bucket_ids: Collection[BucketId], now: datetime, made: Decision) -> None:
    """Decide about lines that wait for room in the buckets: as many of each lane as may fit, in order."""
    seen: set[Line] = set()
    await _know(tx, gate, map(text_of_bucket_id, bucket_ids), now)
    left = {bucket_id.bucket for bucket_id in bucket_ids}
    gate.looked |= left
    for bucket_id in bucket_ids:
        gate.note_waiting(bucket_id)
    while roomy := {bucket for bucket in left if bucket in gate.buckets and gate.buckets[bucket].room}:
        most = min(MOST_OPEN, max(gate.buckets[bucket].room for bucket in roomy)) + len(seen)
        waiting, deeper = await limit_lines.waiting_for(tx, roomy, most)
        gate.look_behind(deeper, now)
        new = waiting.keys() - seen
        if not new:
            break
        seen |= new
        await _know(tx, gate, [line.limit_key for line in new], now)
        stuck = await _decide(tx, gate, new, now, made)
        # Room that a line can't use, because it waits for another bucket too or is too heavy, goes to the next one.
        left = {waiting[line] for line in stuck & new}
