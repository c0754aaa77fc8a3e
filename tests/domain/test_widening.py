"""Which schema only widens another (DESIGN.md section 5, Z5): what is not understood never does."""

import json
import time
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle_server.domain.widening import widens

A = {"type": "integer"}
CLOSED = {"type": "object", "additionalProperties": False}


def _arguments(required: list[str], **properties: Any) -> dict[str, Any]:
    return {**CLOSED, "properties": properties, "required": required}


def _tree(**more: Any) -> dict[str, Any]:
    node = _arguments(["n"], **({"n": A, "sub": {"type": "array", "items": {"$ref": "#/$defs/Node"}}} | more))
    return {"$defs": {"Node": node}, "$ref": "#/$defs/Node"}


def _of(definition: Any) -> dict[str, Any]:
    return {**_arguments(["x"], x={"$ref": "#/$defs/X"}), "$defs": {"X": definition}}


WIDER: dict[str, tuple[Any, Any]] = {
    "an optional argument": (_arguments(["a"], a=A), _arguments(["a"], a=A, b={"type": "string", "default": "x"})),
    "no longer required": (_arguments(["a"], a=A), _arguments([], a=A)),
    "words": ({"title": "A", **A}, {"title": "B", "description": "more", "default": 3, **A}),
    "the order of keys": (_arguments(["a"], a=A), json.loads(json.dumps(_arguments(["a"], a=A), sort_keys=True))),
    "null is admitted": (A, {"anyOf": [A, {"type": "null"}]}),
    "one type more": (A, {"type": ["integer", "null"]}),
    "integers are numbers": (A, {"type": "number"}),
    "one alternative more": ({"anyOf": [A, {"type": "null"}]}, {"anyOf": [{"type": "string"}, {"type": "null"}, A]}),
    "alternatives that became a list of types": ({"anyOf": [A, {"type": "null"}]}, {"type": ["null", "integer"]}),
    "a longer enum": ({"enum": ["a", "b"], "type": "string"}, {"enum": ["c", "b", "a"], "type": "string"}),
    "a constant that became an enum": ({"const": 1}, {"enum": [1, 2]}),
    "an enum that became a type": ({"enum": ["a", "b"]}, {"type": "string"}),
    "bounds that went": ({**A, "minimum": 0, "maximum": 9}, A),
    "bounds that moved out": ({**A, "minimum": 0, "maximum": 9}, {**A, "minimum": -1, "exclusiveMaximum": 10}),
    "more than five is at least five": ({**A, "exclusiveMinimum": 5}, {**A, "minimum": 5}),
    "lengths": ({"type": "string", "minLength": 2, "maxLength": 3}, {"type": "string", "minLength": 1, "maxLength": 9}),
    "a pattern that went": ({"type": "string", "pattern": "^a"}, {"type": "string"}),
    "wider items": ({"type": "array", "items": A}, {"type": "array", "items": {"type": "number"}}),
    "all keys are admitted": (_arguments(["a"], a=A), {"type": "object", "properties": {"a": A}, "required": ["a"]}),
    "a removed property that the rest admits": (
        {"type": "object", "properties": {"a": A}},
        {"type": "object", "additionalProperties": {}},
    ),
    "a definition that widened": (_of(A), _of({"type": ["integer", "string"]})),
    "a definition that was written out": (_of(A), _arguments(["x"], x=A)),
    "a recursive one": (_tree(), _tree(color={"type": "string"})),
    "what is not understood, and the same": ({**A, "not": {"const": 3}}, {"title": "t", **A, "not": {"const": 3}}),
    "anything": (A, True),
    "nothing before": (False, A),
    "a tuple": ({"type": "array", "prefixItems": [A]}, {"type": "array", "prefixItems": [{"type": "number"}]}),
}

NO_WIDER: dict[str, tuple[Any, Any]] = {
    "a required argument": (_arguments(["a"], a=A), _arguments(["a", "b"], a=A, b=A)),
    "an argument that went": (_arguments(["a"], a=A, b=A), _arguments(["a"], a=A)),
    "a key that is required": ({"type": "object"}, {"type": "object", "required": ["a"]}),
    "an optional one where all keys were admitted": (
        {"type": "object", "properties": {"a": A}},
        {"type": "object", "properties": {"a": A, "b": A}},
    ),
    "another type": (A, {"type": "string"}),
    "numbers are no integers": ({"type": "number"}, A),
    "a type where there was none": ({}, A),
    "an alternative that went": ({"anyOf": [A, {"type": "null"}]}, {"anyOf": [A, {"type": "string"}]}),
    "a shorter enum": ({"enum": ["a", "b"]}, {"enum": ["a"]}),
    "true is no 1": ({"enum": [True]}, {"enum": [1]}),
    "an enum where there was a type": ({"type": "string"}, {"enum": ["a"]}),
    "a bound": (A, {**A, "minimum": 0}),
    "a bound that moved in": ({**A, "maximum": 9}, {**A, "maximum": 8}),
    "at least five is not more than five": ({**A, "minimum": 5}, {**A, "exclusiveMinimum": 5}),
    "another pattern": ({"type": "string", "pattern": "^a"}, {"type": "string", "pattern": "^b"}),
    "a format": ({"type": "string"}, {"type": "string", "format": "date"}),
    "narrower items": ({"type": "array"}, {"type": "array", "items": A}),
    "no more keys": ({"type": "object", "properties": {"a": A}}, {**CLOSED, "properties": {"a": A}}),
    "a definition that narrowed": (_of({"type": "number"}), _of(A)),
    "a definition that narrowed beside what is not understood": (
        {"$defs": {"X": {}}, "not": {"$ref": "#/$defs/X"}},
        {"$defs": {"X": A}, "not": {"$ref": "#/$defs/X"}},
    ),
    "a recursive one": (_tree(), _tree(sub={"type": "array", "maxItems": 1, "items": {"$ref": "#/$defs/Node"}})),
    "exactly one of": ({"anyOf": [A, {"type": "null"}]}, {"oneOf": [A, {"type": "number"}, {"type": "null"}]}),
    "what is not understood": (A, {**A, "not": {"const": 3}}),
    "pattern properties": ({"type": "object"}, {"type": "object", "patternProperties": {"^a": A}}),
    "a reference that leads out": ({"$ref": "#/definitions/X"}, A),
    "a reference to itself": ({"$defs": {"X": {"$ref": "#/$defs/X"}}, "$ref": "#/$defs/X"}, A),
    "a tuple that grew": ({"type": "array", "prefixItems": [A]}, {"type": "array", "prefixItems": [A, A]}),
    "nothing": (A, False),
}


def _widens(old: Any, new: Any) -> bool:
    return widens(json.dumps(old), json.dumps(new))


@pytest.mark.parametrize("name", WIDER)
def test_what_admits_all_that_was_admitted_widens(name: str) -> None:
    assert _widens(*WIDER[name])


@pytest.mark.parametrize("name", NO_WIDER)
def test_what_refuses_something_or_is_not_understood_does_not(name: str) -> None:
    assert not _widens(*NO_WIDER[name])


def test_schemas_without_end_are_no_widening_and_take_no_time() -> None:
    """Definitions that each refer twice to the next, which without a bound are a million comparisons."""
    deep = {f"D{i}": {"anyOf": [{"$ref": f"#/$defs/D{i + 1}"}] * 2} for i in range(20)}
    old = {"$defs": {**deep, "D20": {"type": "number"}}, "$ref": "#/$defs/D0"}
    new = {"$defs": {**deep, "D20": A}, "$ref": "#/$defs/D0"}

    assert not _widens(old, new)


_TYPES = ["null", "integer", "number", "string", "boolean", "array", "object"]
_BOUNDS = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"]
_SIZES = ["minLength", "maxLength", "minItems", "maxItems"]
_scalars = st.sampled_from([None, True, False, 0, 1, 5, 2.5, "", "a", "ab"])


def _keyword(names: list[str], values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.dictionaries(st.sampled_from(names), values, min_size=1, max_size=1)


def _merged(one: Any, other: Any) -> Any:
    return {**one, **other} if isinstance(one, dict) and isinstance(other, dict) else one


_leaves = st.one_of(
    st.just({}),
    st.booleans(),
    _keyword(["type"], st.lists(st.sampled_from(_TYPES), min_size=1, unique=True)),
    _keyword(["enum"], st.lists(_scalars, min_size=1, max_size=3)),
    _keyword(_BOUNDS, st.integers(0, 5)),
    _keyword(_SIZES, st.integers(0, 2)),
    _keyword(["required"], st.lists(st.sampled_from("ab"), unique=True)),
)


def _composed(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        _keyword(["anyOf", "allOf", "oneOf", "prefixItems"], st.lists(inner, min_size=1, max_size=3)),
        _keyword(["items", "not", "additionalProperties"], inner),
        _keyword(["properties"], st.dictionaries(st.sampled_from("ab"), inner, max_size=2)),
        st.builds(_merged, inner, inner),
    )


_schemas = st.recursive(_leaves, _composed, max_leaves=5)
_values = st.recursive(
    _scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.sampled_from("abc"), inner, max_size=3)),
    max_leaves=4,
)


@given(_schemas, _schemas, st.lists(_values, min_size=1, max_size=8))
def test_no_value_that_was_valid_is_refused_by_what_is_called_wider(old: Any, new: Any, values: list[Any]) -> None:
    if _widens(old, new):
        was, now = jsonschema_rs.validator_for(old), jsonschema_rs.validator_for(new)
        assert [value for value in values if was.is_valid(value) and not now.is_valid(value)] == []


def test_a_comparison_that_would_take_long_is_no_widening():
    """Each of the properties refers to a definition that is large, and is the same."""
    large = {"properties": {f"p{i}": {"type": "string"} for i in range(1000)}}
    refer = {"properties": {f"r{i}": {"$ref": "#/$defs/large"} for i in range(500)}, "$defs": {"large": large}}
    started = time.thread_time()

    assert not widens(json.dumps(refer), json.dumps({**refer, "minProperties": 1}))

    assert time.thread_time() - started < 1
