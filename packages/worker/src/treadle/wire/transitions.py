"""The verbs and the statuses between which they move a task: one table for the code, SQL guards, docs and tests."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, TypeAlias

from treadle.wire.status import LEASED, OPEN, TERMINAL, WAITING, Status, Word


class Verb(Word):
    """What can happen to a task."""

    PROMOTE = "promote"
    """Its time has come."""
    UNBLOCK = "unblock"
    """The last of its dependencies has ended as required."""
    DEFER = "defer"
    """An edit moved its time into the future."""
    CLAIM = "claim"
    START = "start"
    COMPLETE = "complete"
    FAIL = "fail"
    """The task fails for good: reported so, or no budget is left."""
    RETRY = "retry"
    REQUEUE = "requeue"
    """Also a run that was handed back before it started."""
    SUSPEND = "suspend"
    """Its code sleeps, or waits for a message."""
    INTERRUPT = "interrupt"
    """A pause that the worker confirmed, or whose lease ended."""
    PAUSE = "pause"
    CANCEL = "cancel"
    EXPIRE = "expire"
    """The deadline."""
    RESUME = "resume"
    RESOLVE = "resolve"
    RERUN = "rerun"


@dataclass(frozen=True, slots=True)
class Transition:
    """The statuses that a verb may leave, and those that it may lead to."""

    sources: frozenset[Status]
    targets: frozenset[Status]


def _from(*sources: Status, to: tuple[Status, ...]) -> Transition:
    return Transition(frozenset(sources), frozenset(to))


_S = Status
TRANSITIONS: Mapping[Verb, Transition] = MappingProxyType(
    {
        Verb.PROMOTE: _from(_S.SCHEDULED, to=(_S.PENDING,)),
        Verb.UNBLOCK: _from(_S.BLOCKED, to=(_S.PENDING, _S.SCHEDULED)),
        Verb.DEFER: _from(_S.PENDING, to=(_S.SCHEDULED,)),
        Verb.CLAIM: _from(_S.PENDING, to=(_S.CLAIMED,)),
        Verb.START: _from(_S.CLAIMED, to=(_S.RUNNING,)),
        Verb.COMPLETE: _from(_S.RUNNING, to=(_S.COMPLETED,)),
        Verb.FAIL: _from(*LEASED, to=(_S.FAILED,)),
        Verb.RETRY: _from(*LEASED, to=(_S.SCHEDULED, _S.PENDING)),
        Verb.REQUEUE: _from(*LEASED, to=(_S.SCHEDULED, _S.PENDING)),
        Verb.SUSPEND: _from(*LEASED, to=(_S.SCHEDULED, _S.PENDING)),
        Verb.INTERRUPT: _from(*LEASED, to=(_S.PAUSED,)),
        Verb.PAUSE: _from(*WAITING, to=(_S.PAUSED,)),
        Verb.CANCEL: _from(*OPEN, to=(_S.CANCELLED,)),
        Verb.EXPIRE: _from(*OPEN, to=(_S.FAILED,)),
        Verb.RESUME: _from(_S.PAUSED, _S.FAILED, to=(_S.PENDING, _S.SCHEDULED, _S.BLOCKED)),
        Verb.RESOLVE: _from(_S.PAUSED, _S.FAILED, to=tuple(TERMINAL)),
        Verb.RERUN: _from(*TERMINAL, to=(_S.PENDING, _S.BLOCKED)),
    }
)
"""Every allowed transition; anything else is an `InvalidTaskTransition`."""


Action: TypeAlias = Literal["cancel", "pause", "resume", "rerun", "resolve"]
"""The verbs that people can apply to a task."""

_CARRIED_OUT_BY: Mapping[Action, tuple[Verb, ...]] = {
    "cancel": (Verb.CANCEL,),
    "pause": (Verb.PAUSE, Verb.INTERRUPT),  # what a worker holds is paused when its code has stopped
    "resume": (Verb.RESUME,),
    "rerun": (Verb.RERUN,),
    "resolve": (Verb.RESOLVE,),
}


def _admits(action: Action) -> frozenset[Status]:
    return frozenset().union(*(TRANSITIONS[verb].sources for verb in _CARRIED_OUT_BY[action]))


def _leads_to(action: Action) -> frozenset[Status]:
    to: frozenset[Status] = frozenset().union(*(TRANSITIONS[verb].targets for verb in _CARRIED_OUT_BY[action]))
    # A waiting worker claims a pending task at once.
    return to | LEASED if _S.PENDING in to else to


ADMITS: Mapping[Action, frozenset[Status]] = MappingProxyType({action: _admits(action) for action in _CARRIED_OUT_BY})
"""The statuses in which an action has an effect."""

LEADS_TO: Mapping[Action, frozenset[Status]] = MappingProxyType(
    {action: _leads_to(action) for action in _CARRIED_OUT_BY}
)
"""The statuses in which a task may be seen after an action was carried out."""
