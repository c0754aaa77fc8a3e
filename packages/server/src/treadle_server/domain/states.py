"""Moves a task from one state to the next, by the wire's table of transitions."""

from treadle.wire.status import Status
from treadle.wire.transitions import ADMITS, TRANSITIONS, Verb
from treadle_server.errors import InvalidTaskTransition


def advance(status: Status, verb: Verb, to: Status) -> Status:
    """Return `to`, the state after `verb`.

    Raises `InvalidTaskTransition` if the table does not allow `verb` to lead from `status` to `to`.
    """
    transition = TRANSITIONS[verb]
    if status not in transition.sources or to not in transition.targets:
        # The message lists the states that the action admits: running tasks can be paused too, by another verb.
        meant = next((ADMITS[action] for action in ADMITS if action == verb), transition.sources)
        allowed = ", ".join(sorted(meant))
        raise InvalidTaskTransition(f"{verb}: the task is {status}; {verb} needs it to be one of: {allowed}")
    return to
