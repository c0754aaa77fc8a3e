"""A task's artifacts, as listed in the rail beneath its runs."""

from treadle.wire.amounts import in_bytes
from treadle.wire.artifacts import ARTIFACTS_AT_ONCE, ArtifactItem
from treadle_tui.core.draw.format import total
from treadle_tui.core.draw.glyphs import Glyphs
from treadle_tui.core.draw.text import Span, Spans, fit
from treadle_tui.core.state.detail import TaskDetail

SIZE = 8
"""The width of a size, in cells, aligned with the times of the rail."""


def artifact_lines(detail: TaskDetail, glyphs: Glyphs, cells: int) -> list[Spans]:
    """Return a title and a line for each artifact; nothing if there are none."""
    if not detail.artifacts:
        return []
    runs = {item.run_id for item in detail.artifacts}
    # The server sends only the last ones, without their total.
    capped = len(detail.artifacts) >= ARTIFACTS_AT_ONCE
    title = (Span("Artifacts", "title"), Span(f"  {total(len(detail.artifacts), capped=capped)}", "dim"))
    lines = [_line(item, glyphs, cells, names_run=len(runs) > 1) for item in detail.artifacts]
    return [(), title, *lines, *[_ALL] * capped]


_ALL: Spans = (Span(" `treadle artifacts ID` lists all of them", "warn"),)


def _line(item: ArtifactItem, glyphs: Glyphs, cells: int, *, names_run: bool) -> Spans:
    name = (Span(glyphs.clean(item.name, limit=1000)),)
    run = (Span(f"  run {item.run_id}", "dim"),) if names_run else ()
    room = max(8, cells - SIZE - 1 - sum(len(span.text) for span in run))
    return (
        Span(f"{in_bytes(item.size):>{SIZE}} ", "dim"),
        *fit(name, room, keep_end=True, ellipsis=glyphs.ellipsis),
        *run,
    )
