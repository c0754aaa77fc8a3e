"""What is visible of a long text: only that is ever looked at, and one stays where one reads."""

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from treadle_tui.core.sight import Sight
from treadle_tui.core.text import Span, Spans, plain, width
from treadle_tui.core.wrapping import marked, wrapped


class Counted:
    """A document that counts how many of its lines are made."""

    def __init__(self, lines: int, *, length: int = 10) -> None:
        self.lines = lines
        self.length = length
        self.made = 0

    def __len__(self) -> int:
        return self.lines

    def __getitem__(self, index: int, /) -> Spans:
        self.made += 1
        return (Span(f"{index} ".ljust(self.length, "x")),)


def shown(sight: Sight, document: Counted, size: tuple[int, int]) -> Iterator[str]:
    for y in range(size[1]):
        place = sight.place_of(y, document, size[0])
        if place is not None:
            yield plain(sight.rows(document, place[0], size[0])[place[1]])


def test_10_a_million_lines_cost_a_screenful() -> None:
    document, size = Counted(1_000_000, length=500), (40, 20)
    sight = Sight(follow=True, cursor=True)
    sight.wraps = True

    for go in (lambda: sight.go(500_000), sight.follow, lambda: sight.go(0)):
        go()
        sight.settle(document, *size)
        list(shown(sight, document, size))
    for by in (1, 19, 19, -1, -30):
        sight.move(by, document, *size)
        sight.settle(document, *size)

    assert document.made < 2_000


def test_what_grows_is_followed_until_one_goes_up_and_again_at_its_end() -> None:
    document, size = Counted(100), (40, 10)
    sight = Sight(follow=True, cursor=True)
    sight.settle(document, *size)
    document.lines = 130
    sight.settle(document, *size)
    assert sight.visible(document, *size) == (120, 129)

    sight.move(-5, document, *size)
    sight.settle(document, *size)
    document.lines = 200
    sight.settle(document, *size)
    assert sight.line == 124
    assert sight.visible(document, *size) == (120, 129)

    sight.move(1000, document, *size)
    document.lines = 300
    sight.settle(document, *size)
    assert sight.visible(document, *size) == (290, 299)


def test_wrapped_lines_are_seen_to_their_last_character() -> None:
    document, size = Counted(3, length=100), (30, 6)
    sight = Sight()
    sight.wraps = True

    sight.scroll(1000, document, *size)

    assert list(shown(sight, document, size))[-1] == "x" * 10


def test_a_line_longer_than_the_screen_is_scrolled_through_row_by_row() -> None:
    document, size = Counted(2, length=200), (20, 5)
    sight = Sight(cursor=True)
    sight.wraps = True
    sight.settle(document, *size)

    seen = set()
    for _ in range(40):
        seen |= {sight.place_of(y, document, size[0]) for y in range(5)}
        sight.move(1, document, *size)
        sight.settle(document, *size)

    assert {(line, row) for line in range(2) for row in range(10)} <= seen


@given(
    st.integers(0, 60),
    st.integers(1, 12),
    st.integers(1, 60),
    st.booleans(),
    st.booleans(),
    st.lists(st.tuples(st.sampled_from(["move", "scroll", "go", "grow", "wrap"]), st.integers(-70, 70)), max_size=12),
)
def test_the_cursor_is_always_in_sight_and_the_screen_never_empty_below_the_end(
    lines: int, height: int, length: int, cursor: bool, follow: bool, steps: list[tuple[str, int]]
) -> None:
    document, size = Counted(lines, length=length), (20, height)
    sight = Sight(follow=follow, cursor=cursor)
    sight.settle(document, *size)

    for what, by in steps:
        match what:
            case "go":
                sight.go(abs(by) % max(1, len(document)))
            case "grow":
                document.lines = max(0, document.lines + by)
            case "wrap":
                sight.wraps = not sight.wraps
            case "move":
                sight.move(by, document, *size)
            case _:
                sight.scroll(by, document, *size)
        sight.settle(document, *size)
        first, last = sight.visible(document, *size)
        assert not document.lines or first <= sight.line <= last
        rows = list(shown(sight, document, size))
        everything = sum(len(sight.rows(document, index, 20)) for index in range(document.lines))
        assert len(rows) == min(height, everything)


@given(st.lists(st.text(), max_size=4), st.integers(2, 30))
def test_wrapping_loses_nothing_and_keeps_within_the_width(parts: list[str], cells: int) -> None:
    spans = tuple(Span(part) for part in parts)

    rows = wrapped(spans, cells)

    assert "".join(plain(row) for row in rows) == "".join(parts)
    assert all(width(row) <= cells for row in rows if plain(row).isascii())


@given(st.lists(st.text("abAB. ", max_size=6), max_size=4), st.text("abAB.", min_size=1, max_size=2))
def test_what_is_looked_for_is_set_apart_and_nothing_else(parts: list[str], needle: str) -> None:
    import re

    pattern = re.compile(re.escape(needle), re.IGNORECASE)
    spans = marked(tuple(Span(part) for part in parts), pattern)
    text = "".join(parts)

    assert plain(spans) == text
    found = "".join(span.text for span in spans if span.tone == "match")
    assert found == "".join(pattern.findall(text))
