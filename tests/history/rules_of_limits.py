"""What must be so of tasks under limits: by the marks of the code that ran inside, and by when runs were claimed."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.history.known import Known
from tests.history.records import Cap, Era, Mark, RunRow, Said, Violation
from treadle_server.store.postgres.clock import WITHIN

GLOBAL = "@global"
"""The room whose limits the jobs of a history name."""

NEAR = 1.5
"""Seconds by which a claim may seem to be outside the time in which the clock was so: a step takes a moment."""

APART = WITHIN
"""Seconds by which two servers' looks at the store's clock may be apart: what fills in them may be taken as early.

A server that reads the clock over a slow network knows it no better than by half of the way there and back.
"""


class Bucket(NamedTuple):
    """A limit, for one of its keys."""

    room: str
    name: str
    key: str | None


class Claim(NamedTuple):
    """A run, and between which instants it was claimed: its transaction's begin, and that of its code.

    A server that stands still in between commits it later than its row says, when the bucket may have more tokens.
    """

    first: float
    last: float
    run: RunRow


class Span(NamedTuple):
    """How long a run's code was surely inside, and what it weighs."""

    began: float
    ended: float
    weight: int
    mark: Mark


def places_are_kept(known: Known) -> Iterator[Violation]:
    """Never does more run inside than a limit allows: code that runs, of runs whose lease lasts.

    A worker that was cut off or frozen past a lease may run on, and its place be another's: what it does from then on
    is not counted. Nothing else is let pass, neither a kill nor a cancel nor a clock that was set.
    """
    caps = {(cap.room, cap.name): cap for cap in known.history.caps if cap.concurrency is not None}
    spans: dict[Bucket, list[Span]] = defaultdict(list)
    for task, marks in known.marks.items():
        for room, named in _named(known, task):
            if (room, named["name"]) in caps:
                bucket = Bucket(room, named["name"], named.get("key"))
                spans[bucket] += _spans(marks, named.get("weight") or 1)
    for bucket, several in spans.items():
        yield from _crowds(bucket, several, caps[bucket.room, bucket.name].concurrency or 0)


def _spans(marks: list[Mark], weight: int) -> Iterator[Span]:
    runs: dict[int, list[Mark]] = defaultdict(list)
    for mark in marks:
        if mark.is_fenced:
            runs[mark.run].append(mark)
    for several in runs.values():
        if several[0].what == "begin":
            yield Span(several[0].at, several[-1].at, weight, several[0])


def _crowds(bucket: Bucket, spans: list[Span], most: int) -> Iterator[Violation]:
    """Yield each begin at which there were too many."""
    inside: list[Span] = []
    for span in sorted(spans, key=lambda one: one.began):
        inside = [one for one in inside if one.ended > span.began] + [span]
        if (weight := sum(one.weight for one in inside)) > most:
            others = ", ".join(f"run {one.mark.run} of {one.mark.task} at {one.mark.worker}" for one in inside[:-1])
            yield Violation(
                "over-limit",
                span.mark.task,
                f"with run {span.mark.run}, at {span.mark.worker}, {weight} of {most} were inside {_shown(bucket)},"
                f" at {span.began:.3f}: {others}",
            )


def rates_are_kept(known: Known) -> Iterator[Violation]:
    """No more claims than the bucket had tokens, in any time, by the store's clock; a step of it fills nothing.

    What was handed back unstarted gave its token back, and is not counted.
    """
    if not known.history.eras:
        return
    caps = {(cap.room, cap.name): cap for cap in known.history.caps if cap.rate is not None}
    claims: dict[Bucket, list[Claim]] = defaultdict(list)
    for task, runs in known.runs.items():
        for room, named in _named(known, task):
            if (room, named["name"]) in caps:
                bucket = Bucket(room, named["name"], named.get("key"))
                claims[bucket] += [_claim(known, run) for run in runs if run.reason != "returned"]
    for bucket, several in claims.items():
        yield from _hurries(bucket, several, caps[bucket.room, bucket.name])


def _hurries(bucket: Bucket, claims: list[Claim], cap: Cap) -> Iterator[Violation]:
    """Yield each claim that is one too many in a time, whenever each was made that may have been made in it."""
    assert cap.rate is not None
    count, seconds = cap.rate
    told: set[tuple[str, int]] = set()
    in_order = sorted(claims, key=lambda one: one.last)
    for since in sorted(one.first for one in claims):
        left = float(cap.burst)
        for one in in_order:
            if one.first < since:
                continue
            left -= 1
            tokens = left + (one.last - since + APART) * count / seconds
            if tokens < -1e-3 and (one.run.task, one.run.run) not in told:
                told.add((one.run.task, one.run.run))
                yield Violation(
                    "over-rate",
                    one.run.task,
                    f"its run {one.run.run} was claimed until {one.last:.3f} with {tokens + 1:.3f} tokens, since"
                    f" {since:.3f}, in {_shown(bucket)}",
                )


def _claim(known: Known, run: RunRow) -> Claim:
    at = _when(known, run)
    begun = min((one.at for one in known.marks[run.task] if one.run == run.run), default=at)
    return Claim(at, max(at, begun), run)


def _when(known: Known, run: RunRow) -> float:
    """Return when a run was claimed, by the monotonic clock: of the times that the store's clock meant, the last.

    A claim is not before its submit, and not after its code began.
    """
    first = min((one.sent for one in known.asked(run.task, "submit")), default=float("-inf"))
    begun = [one.at for one in known.marks[run.task] if one.run >= run.run]
    last = min(begun, default=float("inf"))
    eras = known.history.eras
    possible = [run.claimed_at - era.off for i, era in enumerate(eras) if _is_in(run.claimed_at - era.off, i, eras)]
    fitting = [at for at in possible if first - NEAR <= at <= last + NEAR]
    return max(fitting or possible or [run.claimed_at - eras[-1].off])


def _is_in(at: float, number: int, eras: list[Era]) -> bool:
    ended = eras[number + 1].began if number + 1 < len(eras) else float("inf")
    return eras[number].began - NEAR <= at <= ended + NEAR


def _named(known: Known, task: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each limit that a task counts against, with its room: its own, and its job's with what a pointer finds."""
    submit: Said | None = next(iter(known.asked(task, "submit")), None)
    if submit is None:
        return
    room = known.rows[task].room if task in known.rows else ""
    for named in submit.fields.get("limits", ()):
        yield room, named
    for named in known.history.limits_of_jobs.get(submit.fields.get("job", ""), ()):
        key = named.get("key") or ""
        yield GLOBAL, {**named, "key": submit.fields["payload"].get(key[1:])} if key.startswith("/") else named


def _shown(bucket: Bucket) -> str:
    return f"{bucket.room}/{bucket.name}" + ("" if bucket.key is None else f"={bucket.key}")


RULES = (places_are_kept, rates_are_kept)
