"""The texts of the status bar at the top, of the boxes beneath it, and of the banner."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from treadle.wire.status import Status
from treadle_tui.core.draw.format import age, clock, lasted, number, rate, signed, sparkline
from treadle_tui.core.draw.glyphs import Glyphs
from treadle_tui.core.draw.text import Span, Spans, Tone, clip, fit, joined, width
from treadle_tui.core.draw.wrapping import wrapped
from treadle_tui.core.state.charts import measured_since, throughput
from treadle_tui.core.state.model import LinkState, Model
from treadle_tui.core.state.tables import Table

_LINKS: dict[str, tuple[str, Tone]] = {
    "connecting": ("connecting", "warn"),
    "live": ("live", "ok"),
    "gone": ("no server", "bad"),
    "refused": ("refused", "bad"),
    "denied": ("token refused", "bad"),
}

_GONE = {"denied": "The server rejected the token", "refused": "The server refused the connection"}
"""The banner's text if the server answered; otherwise it says that there is no server."""

LEAST_REASON = 20
"""The least number of cells in which a reason is worth showing."""

ROOMY = 24
"""The height, in lines, from which a screen has room for a long reason."""

LONGEST_REASON = 300
"""The most characters of a reason that are shown."""

LEAST_SUBJECT = 9
"""The least number of cells by which a name can be recognised."""

UNKNOWN = "?"
"""Shown in place of a number that only a server could tell."""


def top_line(model: Model, cells: int, glyphs: Glyphs, *, server_name: str, read_only: bool, folded: bool) -> Spans:
    """Return the first line of the status bar, exactly `cells` wide; `folded` adds what the boxes would have shown."""
    every = model.every_queue()
    alerts = model.alerts()
    name = Span(clip(glyphs.clean(server_name), 28, ellipsis=glyphs.ellipsis), "dim")
    parts: list[Spans] = [(Span(" treadle", "bold"),), (name,), (_link(model, glyphs),)]
    if access := _access(model.link, read_only=read_only):
        parts.append((Span(access, "dim" if access == "rw" else "hold"),))
    queues = _shown(model.jobs) if model.jobs.generation else UNKNOWN
    counts: list[Spans] = [(Span(f" {queues} queue{'' if queues == '1' else 's'}"),)]
    if folded:
        counts = [
            (Span(_of_queues(model, every.pending), "bold"), Span(" pending", "dim")),
            (Span(f"{_of_queues(model, every.running, cells=5)}/{_slots(model)}", "run"), Span(" run", "dim")),
        ]
    word = "wkr" if folded else "worker" if len(model.worker_rows()) == 1 else "workers"
    serving: Spans = (Span(f"{_serving(model)} {word}"),)
    counts.append(serving)
    if alerts:
        worst: Tone = "bad" if alerts[0].severity == "bad" else "warn"
        counts.append((Span(f"! {len(alerts):,}", worst),))
    if every.failed:
        said = "" if folded else " failed"
        counts.append((Span(f"{glyphs.task[Status.FAILED]} {number(every.failed, cells=6)}{said}", "bad"),))
    if every.retrying and not folded:
        counts.append((Span(f"{number(every.retrying, cells=6)} retrying", "warn"),))
    time: Spans = (Span(model.time.now().astimezone().strftime("%H:%M:%S "), "dim"),)
    left = joined([*parts, *counts], gap="  ")
    # Drop the server's name first, then the access.
    while width(left) + width(time) + 1 > cells and len(parts) > 2:
        del parts[1 if (name,) in parts else 2]
        left = joined([*parts, *counts], gap="  ")
    # Drop the workers next, since alerts name the missing ones, then the last counts, which queues show too.
    while width(left) + width(time) + 1 > cells and len(counts) > 1:
        counts.remove(serving if serving in counts else counts[-1])
        left = joined([*parts[:1], (_link(model, glyphs, is_brief=True),), *counts], gap="  ")
    return (*fit(left, max(0, cells - width(time)), ellipsis=glyphs.ellipsis), *time)


def _slots(model: Model) -> str:
    """Return how many tasks could run at once; unknown without live workers' data."""
    return number(model.every_queue().slots, cells=5) if model.link.live and model.workers.generation else UNKNOWN


def _serving(model: Model) -> str:
    """Return how many of all workers serve; unknown before they are loaded."""
    if not model.workers.generation:
        return UNKNOWN
    serving = f"{model.every_queue().workers:,}" if model.link.live else UNKNOWN
    return f"{serving}/{_shown(model.workers)}"


def _shown(table: Table[Any]) -> str:
    """Return how many rows there are, and of how many if the server has left some out."""
    return f"{len(table.rows):,}" + (f" of {table.total:,}" if table.total > len(table.rows) else "")


def _of_queues(model: Model, count: int, *, cells: int = 6) -> str:
    """Return a sum over all queues; unknown before they are loaded."""
    return number(count, cells=cells) if model.jobs.generation else UNKNOWN


def _access(link: LinkState, *, read_only: bool) -> str:
    """Return what may be changed from here, and by the token itself; nothing is shown for a token that is refused."""
    if link.state == "denied":
        return "ro" if read_only else ""
    if not read_only:
        return "token ro" if link.may_write is False else "rw"
    return "ro" if link.may_write is None else "ro, token may write" if link.may_write else "ro, token ro"


def _link(model: Model, glyphs: Glyphs, *, is_brief: bool = False) -> Span:
    link = model.link
    if model.is_recorded and link.live:
        return Span(f"{glyphs.ring} recorded", "hold")
    word, tone = _LINKS[link.state]
    glyph = glyphs.dot if link.live else glyphs.cross if tone == "bad" else glyphs.ring
    latency = f" {lasted(link.latency)}" if link.live and link.latency is not None and not is_brief else ""
    return Span(f"{glyph} {word}{latency}", tone)


def throughput_lines(model: Model, cells: int, glyphs: Glyphs) -> tuple[Spans, list[Spans]]:
    """Return the title and lines of the throughput box; both sparklines start at zero and share one scale."""
    through = throughput(model.every_queue().job, model.span, model.now())
    known = [value for value in (*through.completed, *through.failed) if value is not None]
    top = max(known, default=0.0)
    title = (
        Span("Throughput /s  ", "title"),
        Span(f" {span_words(model)}, 0..{rate(top) if top < 10 else number(top)}", "dim"),
    )
    return title, [
        _series("done", through.completed, through.completed_rate, top, cells, glyphs, tone="ok"),
        _series("fail", through.failed, through.failed_rate, top, cells, glyphs, tone="bad"),
    ]


def span_words(model: Model) -> str:
    """Return the time span of the charts, and since when it was measured if that is not all of it."""
    since = measured_since(model.every_queue().job, model.span, model.now())
    return model.span.words + ("" if since is None else f", known since {clock(since)[:5]}")


def _series(
    name: str, values: Sequence[float | None], now: float, top: float, cells: int, glyphs: Glyphs, *, tone: Tone
) -> Spans:
    room = max(1, cells - 12)
    line = sparkline(values, room, glyphs, top=top)
    # Zero is faint: only higher values have the colour of the series.
    parts = [Span("".join(run), "faint" if zero else tone) for zero, run in groupby(line, glyphs.spark[0].__eq__)]
    return (Span(f"{name} ", "dim"), *parts, Span(f" {rate(now):>6}", "bold"))


def now_lines(model: Model) -> list[Spans]:
    """Return the lines of the box `Now`."""
    every = model.every_queue()
    return [
        (
            Span("pending ", "dim"),
            Span(f"{_of_queues(model, every.pending):>6} ", "bold"),
            Span(signed(model.growth()) if model.link.live else "", "dim"),
        ),
        (
            Span("running ", "dim"),
            Span(f"{_of_queues(model, every.running):>6}", "run"),
            Span(f" / {_slots(model)}", "dim"),
        ),
        (
            Span("waiting ", "dim"),
            Span(f"{_of_queues(model, every.scheduled):>6}"),
            Span(f"  held {_of_queues(model, every.held, cells=4)}", "hold" if every.held else "dim"),
        ),
    ]


def attention_lines(model: Model, cells: int, height: int, glyphs: Glyphs) -> list[Spans]:
    """Return the worst alerts, as many as there is room for; the box's title shows their total."""
    found = model.alerts()
    if not found:
        if not model.link.live:
            return [(Span("unknown without a connection", "dim"),)]
        well = f"{glyphs.task[Status.COMPLETED]} nothing needs you"
        return [(Span(well if model.is_loaded else "not known yet", "dim"),)]
    lines: list[Spans] = []
    for alert in found[: max(1, height)]:
        glyph = glyphs.cross if alert.severity == "bad" else "!"
        # Show the whole text if that leaves enough room to recognise the name.
        text = glyphs.clean(alert.text)
        beside = cells - len("x ") - len("  ") - len(text)
        room = beside if beside >= LEAST_SUBJECT else max(4, cells // 2 - 6)
        subject = clip(glyphs.clean(alert.subject), room, ellipsis=glyphs.ellipsis)
        lines.append((Span(f"{glyph} {subject}", alert.severity), Span(f"  {text}")))
    return lines


def banner_lines(model: Model, cells: int, height: int, glyphs: Glyphs) -> list[Spans]:
    """Return the banner to show above the panes without a connection; nothing with one.

    A long reason is wrapped onto more lines if the screen has room for them. If it doesn't, and there is no room for a
    few words of the reason on the line either, the reason is left out.
    """
    link = model.link
    if link.live or (link.state == "connecting" and model.data_age() is None):
        return []
    quiet = model.data_age()
    shown = f"; what you see is {age(quiet)} old" if quiet is not None else ""
    detail = glyphs.clean(link.detail, limit=LONGEST_REASON)
    told: Spans = (
        Span(f" {glyphs.cross} {_GONE.get(link.state, 'No server')}{shown}. ", "bad"),
        Span("Trying again. ", "plain"),
    )
    whole: Spans = (*told, Span(detail, "dim"))
    if height >= ROOMY:
        return wrapped(whole, cells, indent=3)
    return [whole if width(whole) <= cells or width(told) + LEAST_REASON <= cells else told]


def tiny_line(model: Model, glyphs: Glyphs) -> Spans:
    """Return the one line of counts for a screen that is too small for anything else."""
    every, alerts = model.every_queue(), model.alerts()
    warning = f" !{len(alerts)}" if alerts else ""
    link = _link(model, glyphs)
    return (
        Span(f"{link.text.split(' ')[0]} ", link.tone),
        Span(f"{_of_queues(model, every.pending)} pend {_of_queues(model, every.running)}/{_slots(model)} run"),
        Span(f" {_serving(model)} wkr"),
        Span(warning, "bad"),
    )
