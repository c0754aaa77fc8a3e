"""A heap whose keys grow by themselves: it gives what a search of all would, whatever it was told and when."""

from hypothesis import example, given
from hypothesis import strategies as st

from treadle_server.engine.dispatch.lazy_heap import SPARE, LazyHeap

GONE = None
NAMES = st.sampled_from("abcdef")
GROWTH = st.integers(0, 5)


class Things:
    """Things with keys, and a heap that is told of those that become smaller."""

    def __init__(self) -> None:
        self.keys: dict[str, tuple[int, str]] = {}
        self.heap: LazyHeap[str, tuple[int, str]] = LazyHeap(self.keys.get)

    def put(self, name: str, key: int) -> None:
        self.keys[name] = (key, name)
        self.heap.update(name)

    def first(self) -> str | None:
        return min(self.keys, key=self.keys.__getitem__, default=GONE)


@example([("put", "a", 3), ("put", "a", 1), ("put", "b", 4), ("grow", "a", 5)])  # of which an outdated entry is left
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("put"), NAMES, st.integers(0, 20)),
            st.tuples(st.just("serve"), NAMES, GROWTH),
            st.tuples(st.just("grow"), NAMES, GROWTH),
            st.tuples(st.just("gone"), NAMES, GROWTH),
        ),
        max_size=60,
    )
)
def test_what_comes_first_is_what_a_search_of_all_finds(steps) -> None:
    things = Things()
    for step, name, n in steps:
        if step == "put":
            things.put(name, n)
        elif step == "gone":
            things.keys.pop(name, None)
        elif step == "grow" and name in things.keys:
            things.keys[name] = (things.keys[name][0] + n, name)
        elif step == "serve" and (first := things.heap.first()) is not None:
            things.keys[first] = (things.keys[first][0] + n, first)

        assert step == "put" or things.heap.first() == things.first()
        assert things.heap.only in {None, *"abcdef"}


def test_one_that_rises_again_and_again_above_others_leaves_no_more_than_is_borne() -> None:
    things = Things()
    things.put("low", 10**6)
    for n in range(10 * SPARE):
        things.put("high", -n)
        things.keys["high"] = (10**6 + n, "high")
        things.put("first", -(10**6))
        assert things.heap.first() == "first"

    assert len(things.heap._heap) <= 2 * 3 + SPARE


def test_the_only_thing_is_told_without_a_look() -> None:
    things = Things()
    assert things.heap.only is None
    things.put("a", 1)
    assert things.heap.only == "a"
    things.put("b", 1)
    assert things.heap.only is None
