"""Lists as one bound value, so that a statement is the same text, and planned once, for any number of keys."""

import json
from collections.abc import Collection
from typing import Any

from sqlalchemy import ARRAY, BigInteger, ColumnElement, any_, bindparam, column, func, select
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects.postgresql import array
from sqlalchemy.sql.elements import KeyedColumnElement
from sqlalchemy.types import TypeEngine

from treadle_server.store.base import Dialect

NUMBER: TypeEngine[Any] = BigInteger()
UUID: TypeEngine[Any] = postgresql.UUID(as_uuid=False)
TEXT: TypeEngine[Any] = postgresql.TEXT()


def is_among(dialect: Dialect, expression: ColumnElement[Any], name: str, kind: TypeEngine[Any]) -> ColumnElement[bool]:
    """Return the condition that `expression` is one of the values bound to `name`."""
    if dialect == "sqlite":
        return expression.in_(select(column("value")).select_from(func.json_each(bindparam(name))))
    return expression == any_(bindparam(name, type_=ARRAY(kind)))


def is_same(dialect: Dialect, sought: ColumnElement[Any], given: ColumnElement[Any]) -> ColumnElement[bool]:
    """Return the condition that `sought` is `given`, of a join that goes from the given row to the sought one.

    On PostgreSQL a plain equation can be read both ways, and without statistics the planner took the wrong one: it read
    every task and looked for its hold. This form can only be looked up along an index of `sought`.
    """
    return sought == (given if dialect == "sqlite" else any_(array([given])))


def rows_of(dialect: Dialect, name: str, kind: TypeEngine[Any]) -> tuple[Any, KeyedColumnElement[Any]]:
    """Return a FROM element with a row for each value bound to `name`, and its column."""
    if dialect == "sqlite":
        values = func.json_each(bindparam(name)).table_valued("value", name=f"{name}_rows")
        return values, values.c.value
    values = func.unnest(bindparam(name, type_=ARRAY(kind))).table_valued("value", name=f"{name}_rows").render_derived()
    return values, values.c.value


def bound(dialect: Dialect, values: Collection[Any]) -> Any:
    """Return `values` in the form in which a list is bound: JSON on SQLite, a list for an array on PostgreSQL."""
    items = list(values)
    return json.dumps(items) if dialect == "sqlite" else items
