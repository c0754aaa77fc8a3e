"""Decides whether one JSON Schema only widens another: every value valid under the old one is valid under the new one.

The answer errs on the safe side: whatever is not understood (a changed `not`, `if`, `patternProperties` …) does not
count as widening.
"""

import json
from collections.abc import Iterable
from typing import Any, TypeGuard

MOST_STEPS = 5_000
"""How many pairs of schemas are compared, in some 10 ms; if that is not enough, the answer is no."""

MOST_NODES = 50_000
"""How many values of the old schema are searched for changes in all, in some 50 ms."""

MOST_TEXT = 1024 * 1024
"""The longest schema, in characters, that is compared."""

DIALECT = "https://json-schema.org/draft/2020-12/schema"
"""The only dialect that is understood, and the one of a schema that names none."""

_SAYS_NOTHING = frozenset(
    {"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment", "$defs"}
    | {"discriminator", "$schema"}
)
_AT_LEAST = frozenset({"minLength", "minItems", "minProperties"})
_AT_MOST = frozenset({"maxLength", "maxItems", "maxProperties"})
_BOUNDS = {
    "minimum": ("exclusiveMinimum", 1),
    "exclusiveMinimum": ("minimum", 1),
    "maximum": ("exclusiveMaximum", -1),
    "exclusiveMaximum": ("maximum", -1),
}
_SAME = frozenset({"pattern", "format", "multipleOf", "uniqueItems", "contentEncoding", "contentMediaType"})

Pair = tuple[int, int]
Pairs = frozenset[Pair]
_NONE: Pairs = frozenset()


def widens(old: str, new: str) -> bool:
    """Return whether the JSON Schema `new` is known to admit all that `old` does; both are JSON text."""
    if max(len(old), len(new)) > MOST_TEXT:
        return False
    if '"$id"' in old or '"$id"' in new:
        # References might lead elsewhere.
        return False
    one, other = json.loads(old), json.loads(new)
    if any(isinstance(schema, dict) and schema.get("$schema", DIALECT) != DIALECT for schema in (one, other)):
        return False
    try:
        return _Comparison(one, other).holds(one, other, _NONE, _NONE)
    except (RecursionError, _TooManyNodes):
        return False


class _TooManyNodes(Exception):
    """The comparison takes too long."""


def same_value(one: object, other: object) -> bool:
    """Return whether two JSON values are equal: 1 and 1.0 are, but not 1 and true, which are equal in Python."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same_value(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same_value, one, other))
    return one == other


class _Comparison:
    """A comparison of two documents, with a count of its work."""

    def __init__(self, old: Any, new: Any) -> None:
        self._old = old
        self._new = new
        self._steps = 0
        self._nodes = 0

    def holds(self, old: Any, new: Any, here: Pairs, above: Pairs) -> bool:
        """Return whether `new` admits all that `old` does.

        `above` are the pairs for values that contain this one: they may be assumed to hold, because values are finite,
        so recursive schemas are compared only once. `here` are the pairs for this same value, which may not be assumed.
        """
        self._steps += 1
        pair = (id(old), id(new))
        if pair in above:
            return True
        if pair in here or self._steps > MOST_STEPS:
            return False
        if old is False or new is True:
            return True
        if not isinstance(new, dict) or not isinstance(old, dict | bool):
            return False
        wanted = {name: value for name, value in new.items() if name not in _SAYS_NOTHING}
        given = (
            {} if isinstance(old, bool) else {name: value for name, value in old.items() if name not in _SAYS_NOTHING}
        )
        here |= {pair}
        if not wanted or self._is_unchanged(given, wanted):
            return True
        return self._by_old(given, new, here, above) or self._by_new(given, wanted, here, above)

    def _by_old(self, old: dict[str, Any], new: Any, here: Pairs, above: Pairs) -> bool:
        """Return whether `new` admits what `old` is made of: the schema it refers to, or each of its alternatives."""
        for name in ("$ref", "allOf", "anyOf", "oneOf"):
            if name not in old:
                continue
            rest = {key: value for key, value in old.items() if key != name}
            if name == "$ref":
                found = self._referred(self._old, old[name])
                return found is not None and self._any_of([found, *([rest] if rest else [])], new, here, above)
            if name == "allOf":
                return self._any_of([*old[name], *([rest] if rest else [])], new, here, above)
            return all(self.holds(self._joined(rest, one), new, here, above) for one in old[name])
        return False

    def _any_of(self, parts: Iterable[Any], new: Any, here: Pairs, above: Pairs) -> bool:
        return any(self.holds(part, new, here, above) for part in parts)

    @staticmethod
    def _joined(rest: dict[str, Any], one: Any) -> Any:
        """Return an alternative joined with the keywords beside it, unless they overlap."""
        if not rest or not isinstance(one, dict) or "$ref" in one or rest.keys() & one.keys():
            return one
        return {**rest, **one}

    def _by_new(self, old: dict[str, Any], new: dict[str, Any], here: Pairs, above: Pairs) -> bool:
        """Return whether `old` implies each keyword of `new`."""
        return all(self._implies(old, new, name, value, here, above) for name, value in new.items())

    def _implies(
        self, old: dict[str, Any], new: dict[str, Any], name: str, value: Any, here: Pairs, above: Pairs
    ) -> bool:
        match name:
            case "$ref":
                found = self._referred(self._new, value)
                return found is not None and self.holds(old, found, here, above)
            case "allOf":
                return all(self.holds(old, one, here, above) for one in value)
            case "anyOf":
                return any(self.holds(old, one, here, above) for one in value)
            case "properties" | "additionalProperties":
                return self._implies_properties(old, new, name, here | above)
            case "items" | "prefixItems":
                return self._implies_items(old, new, name, here | above)
            case _:
                return _implies_plain(old, name, value)

    def _implies_properties(self, old: dict[str, Any], new: dict[str, Any], name: str, above: Pairs) -> bool:
        if "patternProperties" in old or "patternProperties" in new:
            return False
        was, now = old.get("properties", {}), new.get("properties", {})
        others = old.get("additionalProperties", True)
        if name == "properties":
            return all(self.holds(was.get(key, others), one, _NONE, above) for key, one in now.items())
        left_over = [one for key, one in was.items() if key not in now]
        return all(self.holds(one, new[name], _NONE, above) for one in (*left_over, others))

    def _implies_items(self, old: dict[str, Any], new: dict[str, Any], name: str, above: Pairs) -> bool:
        was, now = old.get("prefixItems", []), new.get("prefixItems", [])
        if len(was) != len(now):
            return False
        if name == "items":
            return self.holds(old.get("items", True), new["items"], _NONE, above)
        return all(self.holds(one, other, _NONE, above) for one, other in zip(was, now, strict=True))

    @staticmethod
    def _referred(document: Any, pointer: object) -> Any:
        """Return the definition that a reference within the document names; None for any other reference."""
        if not isinstance(pointer, str) or not isinstance(document, dict) or "$id" in document:
            return None
        place, _, name = pointer.rpartition("/")
        definitions = document.get("$defs")
        if place != "#/$defs" or "~" in name or "%" in name or not isinstance(definitions, dict):
            return None
        return definitions.get(name)

    def _is_unchanged(self, old: dict[str, Any], new: dict[str, Any]) -> bool:
        """Return whether both are the same, with everything that they refer to."""
        names = self._references(old)
        if not same_value(old, new):
            return False
        seen: set[str] = set()
        while names:
            seen.add(name := names.pop())
            was, now = self._referred(self._old, name), self._referred(self._new, name)
            if was is None or not same_value(was, now):
                return False
            names |= self._references(was) - seen
        return True

    def _references(self, schema: Any) -> set[str]:
        """Return the references in a part of the old schema. Raises `_TooManyNodes` if it takes too long."""
        found: set[str] = set()
        waiting = [schema]
        while waiting:
            one = waiting.pop()
            self._nodes += 1
            if self._nodes > MOST_NODES:
                raise _TooManyNodes
            if isinstance(one, dict):
                for name, value in one.items():
                    if name in {"$ref", "$dynamicRef", "$recursiveRef"}:
                        found.add(str(value))
                    else:
                        waiting.append(value)
            elif isinstance(one, list):
                waiting += one
        return found


def _implies_plain(old: dict[str, Any], name: str, value: Any) -> bool:
    """Return whether `old` implies a keyword that contains no other schema."""
    has = old.get(name)
    if name in _BOUNDS:
        return _implies_bound(old, name, value)
    if name in _AT_LEAST:
        return bool(value == 0) or (has is not None and bool(has >= value))
    if name in _AT_MOST:
        return has is not None and bool(has <= value)
    if name == "required":
        return set(value) <= set(has or ())
    if name == "type":
        admitted = {value} if isinstance(value, str) else set(value)
        types = _types(old)
        return types is not None and all(
            one in admitted or (one == "integer" and "number" in admitted) for one in types
        )
    if name in {"enum", "const"}:
        values, admitted_values = _values(old), _values({name: value})
        return values is not None and all(
            any(same_value(one, other) for other in admitted_values or ()) for one in values
        )
    return name in _SAME and name in old and same_value(has, value)


def _implies_bound(old: dict[str, Any], name: str, value: Any) -> bool:
    other, sign = _BOUNDS[name]
    same, near = old.get(name), old.get(other)
    if not _is_number(value):
        return False
    if _is_number(same) and sign * same >= sign * value:
        return True
    if not _is_number(near):
        return False
    # "More than 5" implies "at least 5"; "at least 5" implies "more than" anything below 5.
    return sign * near > sign * value or (near == value and name in {"minimum", "maximum"})


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _values(schema: dict[str, Any]) -> list[Any] | None:
    """Return the values that the schema lists, or None if it lists none."""
    if "const" in schema:
        return [schema["const"]]
    listed: list[Any] | None = schema.get("enum")
    return listed


def _types(schema: dict[str, Any]) -> set[str] | None:
    """Return the types of the schema's values, or None if it does not say."""
    if (types := schema.get("type")) is not None:
        return {types} if isinstance(types, str) else set(types)
    values = _values(schema)
    return None if values is None else {_type_of(value) for value in values}


def _type_of(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "integer" if value.is_integer() else "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"
