"""What is visible of a long text: only that is ever looked at, and one stays where one reads."""

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from treadle_tui.core.draw.text import Span, Spans, plain
from treadle_tui.core.draw.viewport import Viewport


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


def shown(viewport: Viewport, document: Counted, size: tuple[int, int]) -> Iterator[str]:
    for y in range(size[1]):
        place = viewport.place_of(y, document, size[0])
        if place is not None:
            yield plain(viewport.rows(document, place[0], size[0])[place[1]])


def test_10_a_million_lines_cost_a_screenful() -> None:
    document, size = Counted(1_000_000, length=500), (40, 20)
    viewport = Viewport(follow=True, cursor=True)
    viewport.wraps = True

    for go in (lambda: viewport.go(500_000), viewport.follow, lambda: viewport.go(0)):
        go()
        viewport.fit(document, *size)
        list(shown(viewport, document, size))
    for by in (1, 19, 19, -1, -30):
        viewport.move(by, document, *size)
        viewport.fit(document, *size)

    assert document.made < 2_000


def test_what_grows_is_followed_until_one_goes_up_and_again_at_its_end() -> None:
    document, size = Counted(100), (40, 10)
    viewport = Viewport(follow=True, cursor=True)
    viewport.fit(document, *size)
    document.lines = 130
    viewport.fit(document, *size)
    assert viewport.visible(document, *size) == (120, 129)

    viewport.move(-5, document, *size)
    viewport.fit(document, *size)
    document.lines = 200
    viewport.fit(document, *size)
    assert viewport.line == 124
    assert viewport.visible(document, *size) == (120, 129)

    viewport.move(1000, document, *size)
    document.lines = 300
    viewport.fit(document, *size)
    assert viewport.visible(document, *size) == (290, 299)


def test_wrapped_lines_are_seen_to_their_last_character() -> None:
    document, size = Counted(3, length=100), (30, 6)
    viewport = Viewport()
    viewport.wraps = True

    viewport.scroll(1000, document, *size)

    assert list(shown(viewport, document, size))[-1] == "x" * 10


def test_a_line_longer_than_the_screen_is_scrolled_through_row_by_row() -> None:
    document, size = Counted(2, length=200), (20, 5)
    viewport = Viewport(cursor=True)
    viewport.wraps = True
    viewport.fit(document, *size)

    seen = set()
    for _ in range(40):
        seen |= {viewport.place_of(y, document, size[0]) for y in range(5)}
        viewport.move(1, document, *size)
        viewport.fit(document, *size)

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
    viewport = Viewport(follow=follow, cursor=cursor)
    viewport.fit(document, *size)

    for what, by in steps:
        match what:
            case "go":
                viewport.go(abs(by) % max(1, len(document)))
            case "grow":
                document.lines = max(0, document.lines + by)
            case "wrap":
                viewport.wraps = not viewport.wraps
            case "move":
                viewport.move(by, document, *size)
            case _:
                viewport.scroll(by, document, *size)
        viewport.fit(document, *size)
        first, last = viewport.visible(document, *size)
        assert not document.lines or first <= viewport.line <= last
        rows = list(shown(viewport, document, size))
        everything = sum(len(viewport.rows(document, index, 20)) for index in range(document.lines))
        assert len(rows) == min(height, everything)
