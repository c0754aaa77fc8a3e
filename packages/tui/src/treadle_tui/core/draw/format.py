"""The formats of numbers, times, states and JSON: short, aligned, and safe for a terminal."""

import json
import math
from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise

from treadle.wire.status import LEASED, Reason, Status
from treadle.wire.tasks import TaskItem
from treadle_tui.core.draw.glyphs import TASK_TONES, Glyphs
from treadle_tui.core.draw.text import Span, Spans, Tone, clean, clip

MINUTE, HOUR, DAY, YEAR = 60, 3600, 86_400, 31_557_600


def age(seconds: float | None) -> str:
    """Return a duration, in at most five characters below a thousand days: `48s`, `1m02`, `2h05`, `3d04`; `-` for None.

    A negative duration, from clocks that differ, is `0s`. From a thousand days on it is in years, `3.4y`, up to 9,999.
    """
    if seconds is None or math.isnan(seconds):
        return "-"
    whole = int(max(0.0, min(seconds, 9999 * YEAR)))
    if whole < MINUTE:
        return f"{whole}s"
    if whole < HOUR:
        return f"{whole // MINUTE}m{whole % MINUTE:02}"
    if whole < DAY:
        return f"{whole // HOUR}h{whole % HOUR // MINUTE:02}"
    days = whole // DAY
    if days < 1000:
        return f"{days}d{whole % DAY // HOUR:02}" if days < 100 else f"{days}d"
    years = whole / YEAR
    return f"{years:.1f}y" if years < 99.95 else f"{int(years)}y"


def period(seconds: float) -> str:
    """Return a configured length of time, with fractions of a second below a minute: `1.5s`, `1m30`."""
    return f"{seconds:g}s" if seconds < MINUTE else age(seconds)


def since(instant: datetime | None, now: datetime) -> float | None:
    """Return the seconds from `instant` to `now`, negative if it is in the future; None for None."""
    return None if instant is None else (now - instant).total_seconds()


def number(value: float, *, cells: int = 7) -> str:
    """Return a count with thousands separators, or in thousands, millions … if that takes more than `cells`.

    Five cells are enough for every count of the protocol, three below 99,500.
    """
    text = f"{int(value):,}"
    if len(text) <= cells:
        return text
    sign, size = ("-" if value < 0 else ""), abs(float(value))
    for unit in ("k", "M", "G", "T", "P", "E"):
        size /= 1000
        if size < 999.95 and len(text := f"{sign}{size:.1f}{unit}") <= cells:
            return text
        if size < 999.5:
            return f"{sign}{size:.0f}{unit}"
    return f"{sign}{size:.0e}".replace("e+", "e") + "E"


def total(value: int, *, capped: bool) -> str:
    """Return a count, marked if counting stopped there: `10,000+`."""
    return f"{value:,}" + ("+" if capped else "")


def rate(per_second: float) -> str:
    """Return a rate per second with one decimal, or without decimals from 1,000 on."""
    return f"{per_second:.1f}" if abs(per_second) < 999.95 else number(per_second, cells=6)


def signed(per_second: float) -> str:
    """Return a growth such as `+18/s`; empty if it rounds to zero."""
    text = f"{per_second:+.0f}" if abs(per_second) >= 9.95 else f"{per_second:+.1f}"
    return "" if text in {"+0.0", "-0.0"} else f"{text}/s"


def bar(share: float, cells: int, glyphs: Glyphs, *, tone: Tone = "accent") -> Spans:
    """Return a bar filled to `share` of `cells`. Anything above zero is visible, and only 1 is full."""
    share = min(1.0, max(0.0, share if math.isfinite(share) else 0.0))
    steps = len(glyphs.parts) + 1
    filled = int(share * cells * steps)
    if share > 0:
        filled = max(filled, 1)
    whole, part = divmod(filled, steps)
    body = glyphs.full * whole + (glyphs.parts[part - 1] if part else "")
    rest = glyphs.empty * (cells - len(body))
    return tuple(span for span in (Span(body, tone), Span(rest, "faint")) if span.text)


def sparkline(values: Sequence[float | None], cells: int, glyphs: Glyphs, *, top: float | None = None) -> str:
    """Return a sparkline of the values, scaled from zero to `top` or else their maximum; None becomes a blank.

    Zero has a level of its own, so that a trickle never looks like a standstill.
    """
    shown = spread(values, cells)
    highest = top if top is not None else max((value for value in shown if value is not None), default=0)
    line = "".join(" " if value is None else _level(value, highest, glyphs.spark) for value in shown)
    return line.rjust(cells)


def spread(values: Sequence[float | None], cells: int) -> list[float | None]:
    """Resample `values` evenly to `cells` steps: the mean of those that fall into one step, or some repeated.

    None is left out of a mean.
    """
    count = len(values)
    if not count or cells <= 0:
        return []
    if count <= cells:
        return [values[index * count // cells] for index in range(cells)]
    edges = [index * count // cells for index in range(cells + 1)]
    return [_mean([value for value in values[start:end] if value is not None]) for start, end in pairwise(edges)]


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def lasted(seconds: float | None) -> str:
    """Return a duration with suitable precision: `340ms`, `1.2s`, `48s`, `1m02`."""
    if seconds is None or seconds < 0:
        return "0ms" if seconds is not None else "-"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f}ms"
    return f"{seconds:.1f}s" if seconds < 9.95 else age(seconds)


def _level(value: float, highest: float, levels: str) -> str:
    if value <= 0 or highest <= 0:
        return levels[0]
    last = len(levels) - 1
    return levels[max(1, min(last, math.ceil(value / highest * last)))]


def one_line(value: object, glyphs: Glyphs, *, limit: int = 200) -> str:
    """Return JSON on one clean line of at most `limit` characters, without encoding huge containers in full."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else _encoded(value, limit)
    return clip(glyphs.clean(text, limit=limit + 1), limit, ellipsis=glyphs.ellipsis)


def _encoded(value: object, limit: int) -> str:
    # Encode piece by piece: 10 MB of JSON cost no more than their first characters.
    pieces: list[str] = []
    size = 0
    for piece in json.JSONEncoder(ensure_ascii=False, default=str).iterencode(value):
        pieces.append(piece[: limit + 1])
        size += len(pieces[-1])
        if size > limit:
            break
    return "".join(pieces)


def clock(instant: datetime | None) -> str:
    """Return the local time of day, `14:03:22`."""
    return "-" if instant is None else local(instant).strftime("%H:%M:%S")


def local(instant: datetime) -> datetime:
    """Return an instant in the local zone; unchanged if that would be outside the years 1 to 9999."""
    try:
        return instant.astimezone()
    except (OverflowError, ValueError, OSError):
        return instant


def short_id(task_id: str) -> str:
    """Return the last eight digits of an id; the first digits of a UUIDv7 are a time, which neighbours share."""
    return clean(task_id)[-8:]


def task_state(task: TaskItem, now: datetime, glyphs: Glyphs) -> Span:
    """Return a task's glyph and word, with details that the status alone doesn't show.

    These are the time of a retry, a requested cancel, and that the code sleeps or waits for a message.
    """
    if task.status is Status.SCHEDULED and task.next_retry_at is not None:
        ahead = -(since(task.next_retry_at, now) or 0.0)
        word = f"retry in {age(ahead)}" if ahead > 0 else "retry due"
        return Span(f"{glyphs.retry} {word}", "warn")
    glyph = glyphs.task[task.status]
    if task.status is Status.SCHEDULED and task.reason is Reason.SUSPENDED:
        return Span(f"{glyph} asleep", TASK_TONES[task.status])
    if task.cancel_requested and task.status in LEASED:
        return Span(f"{glyph} pausing", "hold")
    return Span(f"{glyph} {task.status.value}", TASK_TONES[task.status])
