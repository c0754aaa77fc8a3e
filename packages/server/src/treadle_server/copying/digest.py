"""A checksum of a table's rows that is the same on SQLite and PostgreSQL, in whatever order they are read."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import lru_cache
from hashlib import blake2b
from typing import Any

import orjson
from sqlalchemy import Table
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects.postgresql import JSONB

_POSTGRES = postgresql.dialect()  # type: ignore[no-untyped-call]

_BYTES = 16
_ALL = 1 << 8 * _BYTES

SHORT = 200
"""Characters of JSON up to which what it comes to is remembered: most is `{}`, `[]` or another of a few."""

_EXACT = Context(prec=10_000)
"""More digits than a number may have (N1)."""


@dataclass(slots=True)
class Digest:
    """How many rows there were, and the sum of their hashes."""

    rows: int = 0
    total: int = 0

    def add(self, rows: Iterable[Sequence[Any]], json_places: Sequence[int]) -> None:
        """Add rows, each its values in the order of the columns; at `json_places` they are JSON as text, or None."""
        for row in rows:
            values = list(row)
            for i in json_places:
                if (text := values[i]) is not None:
                    values[i] = _remembered(text) if len(text) <= SHORT else canonical(text)
            hashed = blake2b(orjson.dumps(values, default=_as_hex), digest_size=_BYTES).digest()
            self.total = (self.total + int.from_bytes(hashed)) % _ALL
            self.rows += 1

    def __str__(self) -> str:
        return f"{self.total:0{2 * _BYTES}x}"


def json_places(table: Table) -> list[int]:
    """Return which of the table's columns hold JSON."""
    return [i for i, column in enumerate(table.columns) if _is_json(column.type)]


def _is_json(kind: Any) -> bool:
    return isinstance(kind.dialect_impl(_POSTGRES), JSONB)


def canonical(text: str) -> str:
    """Return JSON in one form: PostgreSQL keeps no order of keys, no spaces, and writes 1e2 as 100."""
    return json.dumps(json.loads(text, parse_float=_number), sort_keys=True, separators=(",", ":"))


_remembered = lru_cache(maxsize=10_000)(canonical)


def _number(text: str) -> int | str:
    number = Decimal(text)
    if number == number.to_integral_value():
        return int(number)
    # No text of a user's has a NUL.
    return f"\0{number.normalize(_EXACT)}"


def _as_hex(value: Any) -> str:
    if isinstance(value, bytes):
        return value.hex()
    raise TypeError(f"unexpected type of a column's value: {type(value).__name__}")
