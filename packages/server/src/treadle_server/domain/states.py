"""Which verb takes a task from which state to which: the one table that code, SQL guards, docs and tests share."""

from dataclasses import dataclass
from types import MappingProxyType

from treadle.wire.status import OPEN, Status, Word
from treadle_server.errors import InvalidTaskTransition


class Verb(Word):
    """What can happen to a task."""

    PROMOTE = "promote"
    """Its time has come."""
    DEFER = "defer"
    """An edit moved its time into the future."""
    CLAIM = "claim"
    START = "start"
    COMPLETE = "complete"
    FAIL = "fail"
    """For good: reported so, or no budget is left."""
    RETRY = "retry"
    REQUEUE = "requeue"
    """Also a run that was handed back before it started."""
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
    """The states a verb may leave, and those it may lead to."""

    sources: frozenset[Status]
    targets: frozenset[Status]


def _from(*sources: Status, to: tuple[Status, ...]) -> Transition:
    return Transition(frozenset(sources), frozenset(to))


_S = Status
TRANSITIONS: MappingProxyType[Verb, Transition] = MappingProxyType(
    {
        Verb.PROMOTE: _from(_S.SCHEDULED, to=(_S.PENDING,)),
        Verb.DEFER: _from(_S.PENDING, to=(_S.SCHEDULED,)),
        Verb.CLAIM: _from(_S.PENDING, to=(_S.CLAIMED,)),
        Verb.START: _from(_S.CLAIMED, to=(_S.RUNNING,)),
        Verb.COMPLETE: _from(_S.RUNNING, to=(_S.COMPLETED,)),
        Verb.FAIL: _from(_S.CLAIMED, _S.RUNNING, to=(_S.FAILED,)),
        Verb.RETRY: _from(_S.CLAIMED, _S.RUNNING, to=(_S.SCHEDULED, _S.PENDING)),
        Verb.REQUEUE: _from(_S.CLAIMED, _S.RUNNING, to=(_S.SCHEDULED, _S.PENDING)),
        Verb.INTERRUPT: _from(_S.CLAIMED, _S.RUNNING, to=(_S.PAUSED,)),
        Verb.PAUSE: _from(_S.SCHEDULED, _S.PENDING, to=(_S.PAUSED,)),
        Verb.CANCEL: _from(*OPEN, to=(_S.CANCELLED,)),
        Verb.EXPIRE: _from(*OPEN, to=(_S.FAILED,)),
        Verb.RESUME: _from(_S.PAUSED, _S.FAILED, to=(_S.PENDING, _S.SCHEDULED)),
        Verb.RESOLVE: _from(_S.PAUSED, _S.FAILED, to=(_S.COMPLETED, _S.FAILED, _S.CANCELLED)),
        Verb.RERUN: _from(_S.COMPLETED, _S.FAILED, _S.CANCELLED, to=(_S.PENDING,)),
    }
)
"""Every transition there is; anything else is an `InvalidTaskTransition`."""


def advance(status: Status, verb: Verb, to: Status) -> Status:
    """Return `to`, the state after `verb`.

    Raises `InvalidTaskTransition` when the table does not lead from `status` to `to` by `verb`.
    """
    transition = TRANSITIONS[verb]
    if status not in transition.sources or to not in transition.targets:
        allowed = ", ".join(sorted(transition.sources))
        raise InvalidTaskTransition(f"{verb}: the task is {status}, and {verb} needs one of: {allowed}")
    return to
