"""The step from one state to the next, by the wire's table of transitions."""

from treadle.wire.status import Status
from treadle.wire.transitions import ADMITS, TRANSITIONS, Verb
from treadle_server.errors import InvalidTaskTransition


def advance(status: Status, verb: Verb, to: Status) -> Status:
    """Return `to`, the state after `verb`.

    Raises `InvalidTaskTransition` when the table does not lead from `status` to `to` by `verb`.
    """
    transition = TRANSITIONS[verb]
    if status not in transition.sources or to not in transition.targets:
        # Whoever pauses may pause what runs, too: another verb carries that out.
        meant = next((ADMITS[action] for action in ADMITS if action == verb), transition.sources)
        allowed = ", ".join(sorted(meant))
        raise InvalidTaskTransition(f"{verb}: the task is {status}, and {verb} needs one of: {allowed}")
    return to
