"""What cases are made of: texts and JSON with all that is awkward more often than by chance."""

from typing import Any

from hypothesis import strategies as st

AWKWARD = "\x00\x07\x08\t\n\r\x1b\x7f\x85\x9b\x9d\xa0\xad"
AWKWARD += "\u061c\u200b\u200d\u200e\u2028\u202e\u2066\ufeff\ufffe\U000e0041"
"""Characters that terminals, databases and parsers trip over."""

HALVES = "\ud800\udfff"
"""Halves of surrogate pairs, which no UTF-8 has."""

SIGNS = st.one_of(
    st.sampled_from(AWKWARD + HALVES),
    st.sampled_from("\"'\\:/@.,*=#%?&;<>[]{}() -+_$^~`|!0123456789aeLWTZ"),
    st.characters(),
)
LONG = st.sampled_from(["9" * 4301, "-1", "NaN", "null", "a" * 1301, "\u0130" * 255])
TEXTS = st.one_of(
    st.text(SIGNS, max_size=20),
    st.one_of(LONG, st.text(SIGNS, max_size=3)),
    st.text(max_size=300),
    st.text(SIGNS, min_size=250, max_size=270),
)

NUMBERS = st.one_of(
    st.integers(),
    st.sampled_from([0, -1, 2**31, 2**53, 2**63 - 1, 2**63, -(2**63) - 1, 10**4299, 10**25]),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([1e308, 5e-324, -0.0, 1e15, 1e16]),
)
SCALARS = st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS)
JSON: st.SearchStrategy[Any] = st.recursive(
    SCALARS, lambda some: st.one_of(st.lists(some, max_size=4), st.dictionaries(TEXTS, some, max_size=4)), max_leaves=12
)


def spoken(words: list[str], glue: str = "") -> st.SearchStrategy[str]:
    """Return texts of a language's own words, with what is none of them between."""
    return st.lists(st.one_of(st.sampled_from(words), st.sampled_from(words), TEXTS), max_size=8).map(glue.join)


def bent(example: Any) -> st.SearchStrategy[Any]:
    """Return examples of which one or a few members are something else, are gone, or are more."""
    return st.lists(st.tuples(st.integers(0, 2**16), st.integers(0, 5), JSON), min_size=0, max_size=3).map(
        lambda changes: _changed(example, changes)
    )


def _changed(example: Any, changes: list[tuple[int, int, Any]]) -> Any:
    for where, how, value in changes:
        places = list(_places(example))
        example = _put(example, places[where % len(places)], how, value)
    return example


def _places(value: Any, path: tuple[Any, ...] = ()) -> Any:
    yield path
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in pairs:
        yield from _places(one, (*path, key))


def _put(value: Any, path: tuple[Any, ...], how: int, new: Any) -> Any:
    if not path:
        return {**value, str(new)[:20]: new} if how == 0 and isinstance(value, dict) else new
    key, rest = path[0], path[1:]
    copy: Any = dict(value) if isinstance(value, dict) else list(value)
    if not rest and how == 1:
        del copy[key]
    elif not rest and how == 2 and isinstance(copy, list):
        copy.append(copy[key])
    else:
        copy[key] = _put(copy[key], rest, how, new)
    return copy
