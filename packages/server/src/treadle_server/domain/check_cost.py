"""A static estimate of how much work checking a payload against a JSON Schema takes at worst.

The estimate errs on the safe side: what it does not understand is `TOO_COSTLY`, and is checked in a process of its own
(checker_process.py).
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

TOO_COSTLY = 1_000_000
"""The cost of a schema whose check may take practically for ever: branch upon branch, or something unknown."""

MOST_TEXT = 64 * 1024
"""The longest schema, in characters, that is estimated and compiled in the event loop; some 20 ms at worst."""

MOST_LEVELS = 64
"""The most levels that a payload may have (operations/values.py)."""

MOST_STEPS = 20_000
"""The most steps of one estimate, some 10 ms."""

MOST_STATES = 500_000
"""The most states, as estimated by `_states`, of all patterns of a schema together: some 12 ms to compile."""

_PATTERN = 50
_LOOKAROUND = 1_000
"""The cost of a byte of payload that is matched with a pattern, relative to one that is only read (measured)."""

_IN_PLACE = frozenset({"not", "if", "then", "else"})
_IN_PLACE_LISTS = frozenset({"allOf", "anyOf", "oneOf"})
_UNKNOWN = frozenset(
    {"$id", "id", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor", "$vocabulary"}
    | {"unevaluatedProperties", "unevaluatedItems"}
)
_FORMATS = frozenset({"regex", "idn-email", "idn-hostname", "iri", "iri-reference", "uri-template"})
_LOOKS_AROUND = re.compile(r"\(\?(?!:|P?<\w)|\\[1-9kgGK]")
_COUNTED = re.compile(r"\{(\d+)(?:,(\d*))?\}")
_WIDE = re.compile(r"\\[pPwWdDsSbB]|\[\^|\.")


class _Unknown(Exception):
    """The schema has something that the estimate does not understand, or that takes it too long."""


@dataclass(frozen=True, slots=True)
class CheckCost:
    """The cost of a byte of payload: how often it is read, at some 25 ns each."""

    check: int
    """The cost of deciding whether the payload is valid."""
    visits: int
    """How many parts of the schema apply to one value, and so how many errors may be found at it."""

    @property
    def is_cheap(self) -> bool:
        """Return whether the schema may be compiled, and small payloads checked, in the event loop."""
        return self.check < TOO_COSTLY


COSTLY = CheckCost(TOO_COSTLY, TOO_COSTLY)


def check_cost(schema: Any, size: int) -> CheckCost:
    """Return the cost of a schema whose text has `size` characters."""
    if size > MOST_TEXT:
        return COSTLY
    estimate = _Estimate(schema)
    try:
        return CheckCost(estimate.most(schema, estimate.load), estimate.most(schema, lambda _: 1))
    except (_Unknown, RecursionError):
        return COSTLY


@dataclass(slots=True)
class _Reach:
    """The parts of a schema that apply to one value: those for the value itself, and those for each of its members."""

    parts: Counter[int]
    members: dict[str, Counter[int]]
    """Parts of the schema by the name of the property that they apply to; "" means all other names."""
    others: list[Counter[int]]
    """Parts for items, and for property names: no value has both items and properties."""


class _Estimate:
    def __init__(self, document: Any) -> None:
        self._document = document
        self._known: dict[int, Any] = {}
        self._reaches: dict[int, _Reach] = {}
        self._steps = 0
        self._states = 0
        self._patterns: set[str] = set()

    def most(self, schema: Any, load: Callable[[dict[str, Any]], int]) -> int:
        """Return the greatest load that any one value of a payload can have.

        It is computed level by level: a value at most `n` levels above the deepest has the load of the parts that apply
        to it in place, and each of its members that of all parts that apply to the member at once.
        """
        root = self._number(schema)
        self._explore(root)
        loads = {
            number: min(sum(load(self._known[part]) * times for part, times in reach.parts.items()), TOO_COSTLY)
            for number, reach in self._reaches.items()
        }
        most = dict(loads)
        for _ in range(MOST_LEVELS):
            below = {number: max(loads[number], self._below(reach, most)) for number, reach in self._reaches.items()}
            if below == most:
                break
            most = below
        return most[root]

    def _below(self, reach: _Reach, most: dict[int, int]) -> int:
        groups = [*reach.members.values(), *reach.others]
        self._step(len(groups))
        return max((min(sum(most[n] * times for n, times in group.items()), TOO_COSTLY) for group in groups), default=0)

    def _explore(self, root: int) -> None:
        waiting = [root]
        while waiting:
            number = waiting.pop()
            if number in self._reaches:
                continue
            reach = self._reaches[number] = self._reach(number)
            for group in (*reach.members.values(), *reach.others):
                waiting.extend(group)

    def _reach(self, number: int) -> _Reach:
        parts: Counter[int] = Counter()
        self._in_place(number, 1, parts, frozenset())
        schemas = [(self._known[part], times) for part, times in parts.items()]
        every: Counter[int] = Counter()
        items: Counter[int] = Counter()
        names: Counter[int] = Counter()
        for schema, times in schemas:
            self._add(every, _values(schema.get("patternProperties")), times)
            self._add(every, [schema["additionalProperties"]] if "additionalProperties" in schema else [], times)
            self._add(names, [schema["propertyNames"]] if "propertyNames" in schema else [], times)
            self._add(items, _items(schema), times)
        members = {"": every}
        for schema, times in schemas:
            for name, one in _dict(schema.get("properties")).items():
                self._add(members.setdefault(name, Counter(every)), [one], times)
        return _Reach(parts, members, [items, names])

    def _add(self, group: Counter[int], schemas: Iterable[Any], times: int) -> None:
        for schema in schemas:
            self._step(len(group) // 8)
            group[self._number(schema)] += times

    def _in_place(self, number: int, times: int, parts: Counter[int], above: frozenset[int]) -> None:
        """Count the parts that apply to the same value. Raises `_Unknown` if they refer to each other in a circle."""
        if number in above:
            raise _Unknown
        self._step()
        parts[number] += times
        for below in self._beside(self._known[number]):
            self._in_place(self._number(below), times, parts, above | {number})

    def _beside(self, schema: dict[str, Any]) -> Iterator[Any]:
        for name, value in schema.items():
            if name in _UNKNOWN and not (name == "$id" and schema is self._document):
                raise _Unknown
            if name == "$ref":
                yield self._referred(value)
            elif name in _IN_PLACE:
                yield value
            elif name in _IN_PLACE_LISTS:
                yield from _list(value)
            elif name == "dependentSchemas":
                yield from _values(value)
            elif name == "dependencies":
                yield from (one for one in _values(value) if not isinstance(one, list))

    def _referred(self, pointer: object) -> Any:
        if not isinstance(pointer, str) or not (pointer == "#" or pointer.startswith("#/")) or "%" in pointer:
            raise _Unknown
        found = self._document
        for part in pointer.split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, dict) or name not in found:
                raise _Unknown
            found = found[name]
        return found

    def _number(self, schema: Any) -> int:
        """Return the number of a schema, which is the same for the same place in the document."""
        if isinstance(schema, bool):
            schema = _ANY
        if not isinstance(schema, dict):
            raise _Unknown
        number = id(schema)
        if number not in self._known:
            self._known[number] = schema
            for pattern in (schema.get("pattern"), *_dict(schema.get("patternProperties"))):
                self._count_states(pattern)
        return number

    def _count_states(self, pattern: object) -> None:
        if not isinstance(pattern, str) or pattern in self._patterns:
            return
        self._patterns.add(pattern)
        self._states += _states(pattern)
        if self._states > MOST_STATES:
            raise _Unknown

    def load(self, schema: dict[str, Any]) -> int:
        """Return what a byte costs to which this part alone applies."""
        load = 1
        patterns = [schema["pattern"]] if "pattern" in schema else []
        for pattern in (*patterns, *_dict(schema.get("patternProperties"))):
            load += _LOOKAROUND if _LOOKS_AROUND.search(str(pattern)) else _PATTERN
        if "enum" in schema:
            load += len(_list(schema["enum"])) // 4
        if "const" in schema and isinstance(schema["const"], dict | list):
            load += len(schema["const"])
        if schema.get("uniqueItems"):
            load += 20
        if schema.get("format") in _FORMATS or "contentMediaType" in schema:
            raise _Unknown
        return load

    def _step(self, steps: int = 1) -> None:
        self._steps += steps + 1
        if self._steps > MOST_STEPS:
            raise _Unknown


_ANY: dict[str, Any] = {}


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _values(value: Any) -> list[Any]:
    return list(_dict(value).values())


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _items(schema: dict[str, Any]) -> Iterator[Any]:
    for name in ("prefixItems", "items", "additionalItems", "contains"):
        if name in schema:
            value = schema[name]
            yield from value if isinstance(value, list) else [value]


def _states(pattern: str) -> int:
    """Return about how many states a pattern has: nested counts multiply, and Unicode classes have many."""
    states = len(pattern) * (50 if _WIDE.search(pattern) else 1)
    for least, most in _COUNTED.findall(pattern):
        states *= max(int(most or least), 1)
        if states > MOST_STATES:
            break
    return states
