"""The columns of the limits' pane."""

from treadle_tui.core.draw.columns import NOTHING, CellContext, Column, count, stated
from treadle_tui.core.draw.format import bar, number, period
from treadle_tui.core.draw.glyphs import LIMIT_TONES
from treadle_tui.core.draw.text import Span, Spans
from treadle_tui.core.state.limits import LimitRow

BAR = 6
"""The width of a bar, in cells."""


def _name(row: LimitRow, context: CellContext) -> Spans:
    if row.is_beneath and row.key is not None:
        key = "(no key)" if row.key.key is None else context.glyphs.clean(row.key.key)
        return (Span(f"  {context.glyphs.turn} ", "faint"), Span(key, "dim" if row.key.key is None else "plain"))
    room, name = map(context.glyphs.clean, (row.item.room_id, row.item.name))
    return (Span(f"{room}/", "dim"), Span(name, "bold"))


def _kind(row: LimitRow, _: CellContext) -> Spans:
    if row.is_beneath:
        return ()
    kinds = [word for word, cap in (("at once", row.item.concurrency), ("rate", row.item.rate)) if cap is not None]
    return (Span(" + ".join(kinds), "dim"),)


def _state(row: LimitRow, context: CellContext) -> Spans:
    return stated(row.state(context.now), context.glyphs.limit, LIMIT_TONES, known=context.known)


def _used(row: LimitRow, context: CellContext) -> Spans:
    """Draw the share that is used; not for a sum over keys, each of which has the whole limit to itself."""
    most = row.item.concurrency
    used = count(row.counted.used)
    if most is None or row.has_keys:
        each = "" if most is None else f" ({number(most, cells=5)} each)"
        return (*used, *((Span(each, "dim"),) if each else ()))
    share = bar(row.counted.used / most if most else 1.0, BAR, context.glyphs, tone="run")
    return (*share, Span(" "), *used, Span(f"/{number(most, cells=5)}"))


def _tokens(row: LimitRow, context: CellContext) -> Spans:
    """Show how many claims there is room for now, out of how many."""
    left, rate = row.tokens(context.now), row.item.rate
    if left is None or rate is None:
        return NOTHING
    whole = int(left + 1e-9)
    return (
        Span(number(whole, cells=5), "plain" if whole else "warn"),
        Span(f"/{number(rate.burst, cells=5)}"),
    )


def _rate(row: LimitRow, _: CellContext) -> Spans:
    rate = row.item.rate
    if rate is None or row.is_beneath:
        return () if row.is_beneath else NOTHING
    return (Span(f"{number(rate.count, cells=5)} in {period(rate.seconds)}", "dim"),)


def _waiting(row: LimitRow, _: CellContext) -> Spans:
    waiting, more = row.counted.waiting, "+" if row.counted.waiting_is_capped else ""
    return (Span(number(waiting, cells=6 - len(more)) + more, "bold" if waiting else "faint"),)


def _keys(row: LimitRow, _: CellContext) -> Spans:
    if not row.has_keys:
        return () if row.is_beneath else NOTHING
    return (Span(number(row.item.keys, cells=5), "plain"),)


def _on_full(row: LimitRow, context: CellContext) -> Spans:
    return () if row.is_beneath else (Span(context.glyphs.clean(row.item.on_full), "dim"),)


LIMIT_COLUMNS: tuple[Column[LimitRow], ...] = (
    Column("LIMIT", 18, _name, keep_end=True, stem=lambda row: row.is_beneath, most=48, names=True),
    Column("KIND", 14, _kind, rank=4),
    Column("STATE", 6, _state),
    Column("USED", 14, _used, most=24),
    Column("TOKENS", 7, _tokens, right=True, most=11, rank=1),
    Column("WAIT", 6, _waiting, right=True),
    Column("KEYS", 5, _keys, right=True, rank=3),
    Column("RATE", 11, _rate, rank=2, most=14),
    Column("WHEN FULL", 9, _on_full, rank=5),
)
"""The columns of the limits' pane, left to right; in a narrow pane WHEN FULL is dropped first, then KIND, KEYS, RATE
and TOKENS."""
