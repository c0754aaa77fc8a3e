"""Draws the states of a task from the table of transitions, for docs/model.md."""

from collections import defaultdict

from treadle.wire.status import Status
from treadle.wire.transitions import TRANSITIONS

_NEW = (Status.SCHEDULED, Status.BLOCKED, Status.PENDING)


def diagram() -> str:
    """Return the states and what leads from one to the next, in Mermaid's words: an arrow for each pair."""
    arrows: dict[tuple[Status, Status], list[str]] = defaultdict(list)
    for verb, transition in TRANSITIONS.items():
        for source in Status:
            for target in Status:
                if source in transition.sources and target in transition.targets:
                    arrows[source, target].append(verb.value)
    lines = [f"    {source} --> {target}: {', '.join(verbs)}" for (source, target), verbs in arrows.items()]
    return "\n".join(["stateDiagram-v2", *(f"    [*] --> {status}: submit" for status in _NEW), *lines])


if __name__ == "__main__":
    print(diagram())
