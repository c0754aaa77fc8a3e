"""What must be so of steps and messages: a kept step is never called again, and each message is received once."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from tests.history.known import Known
from tests.history.records import Mark, Said, Violation

Step = tuple[str, int]
"""A step's name, and how often that came before."""


def kept_steps_are_not_called_again(known: Known) -> Iterator[Violation]:
    """A step is called once in a run, and in none after a run to which its result was given.

    So it is called once, and once more for each run that was cut off before the result was kept.
    """
    for task, marks in _with_one_life(known):
        for step, several in _by_step(marks).items():
            effects = [one for one in several if one.what == "effect"]
            used = {one.run for one in several if one.what == "used"}
            first = min(used, default=None)
            for one, other in pairwise(sorted(effects, key=lambda one: (one.run, one.at))):
                if one.run == other.run:
                    yield Violation("step-twice", task, f"run {one.run} called step {_shown(step)} twice")
            for effect in effects:
                if first is not None and effect.run > first:
                    yield Violation(
                        "step-twice", task, f"run {effect.run} called step {_shown(step)}, which run {first} had kept"
                    )


def steps_give_what_is_kept(known: Known) -> Iterator[Violation]:
    """What the code used of a step is what one call returned, the same in every run, and what the tables have."""
    kept = {(one.task, one.name, one.occurrence): one.result for one in known.history.steps if one.kind == "call"}
    for task, marks in _with_one_life(known):
        for step, several in _by_step(marks).items():
            returned = [one.note[2] for one in several if one.what == "effect"]
            used = [one for one in several if one.what == "used"]
            for mark in used:
                if mark.note[2] not in returned or mark.note[2] != used[0].note[2]:
                    yield Violation(
                        "step-result", task, f"run {mark.run} used {mark.note[2]!r} of step {_shown(step)}: {returned}"
                    )
            if used and (found := kept.get((task, *step), "nothing")) != used[-1].note[2]:
                yield Violation(
                    "step-lost", task, f"of step {_shown(step)} {used[-1].note[2]!r} was used, not {found!r}"
                )


def messages_come_once(known: Known) -> Iterator[Violation]:
    """Each receive has one message, the same in every run, which was sent and which no other has; the oldest first."""
    for task, marks in _with_one_life(known):
        received: dict[int, list[Any]] = defaultdict(list)
        for mark in (one for one in marks if one.what == "received"):
            received[mark.note[0]].append(mark.note[1])
        sent = {one.fields["data"]: one for one in reversed(known.asked(task, "send"))}
        first = [several[0] for _, several in sorted(received.items())]
        for number, several in received.items():
            if any(one != several[0] for one in several):
                yield Violation("message", task, f"receive {number} had {several}")
        for data in set(first):
            if data not in sent:
                yield Violation("message", task, f"it received {data!r}, which nobody sent")
            elif first.count(data) > 1:
                yield Violation("message", task, f"it received {data!r} {first.count(data)} times")
        yield from _out_of_turn(task, [sent[data] for data in first if data in sent], list(sent.values()))


def _out_of_turn(task: str, received: Sequence[Said], sent: Sequence[Said]) -> Iterator[Violation]:
    """Yield each message that was received though one that was there before it waited."""
    for number, one in enumerate(received):
        for other in sent:
            if other.ends_before(one) and other not in received[:number]:
                late, soon = other.fields["data"], one.fields["data"]
                yield Violation("message", task, f"it received {soon!r} before {late!r}, which had come before")


def _with_one_life(known: Known) -> Iterator[tuple[str, list[Mark]]]:
    """Yield the marks of each task that was not run again, which would have cleared its steps."""
    for task, marks in known.marks.items():
        if not known.asked(task, "rerun"):
            yield task, marks


def _by_step(marks: list[Mark]) -> dict[Step, list[Mark]]:
    found: dict[Step, list[Mark]] = defaultdict(list)
    for mark in marks:
        if mark.what in {"effect", "used"}:
            found[mark.note[0], mark.note[1]].append(mark)
    return found


def _shown(step: Step) -> str:
    return f"{step[0]!r} ({step[1]})"


RULES = (kept_steps_are_not_called_again, steps_give_what_is_kept, messages_come_once)
