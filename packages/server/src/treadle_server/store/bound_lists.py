"""SQL that the two databases spell differently: a list bound as one value, and rows looked up by number.

With a bound list the statement's text is the same for any number of keys, and is planned once.
"""

import json
from collections.abc import Collection
from typing import Any

from sqlalchemy import (
    ARRAY,
    BigInteger,
    ColumnElement,
    Dialect,
    SelectBase,
    Text,
    TypeDecorator,
    bindparam,
    column,
    literal,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.elements import KeyedColumnElement
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeEngine

NUMBER: TypeEngine[Any] = BigInteger()
TEXT: TypeEngine[Any] = Text()


class BoundList(TypeDecorator[Collection[Any]]):
    """A list of values in one parameter: JSON on SQLite, an array on PostgreSQL."""

    impl = Text
    cache_ok = True

    def __init__(self, kind: TypeEngine[Any]) -> None:
        """`kind` is the type of each value."""
        super().__init__()
        self.kind = kind

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Pick the parameter's type."""
        return dialect.type_descriptor(Text() if dialect.name == "sqlite" else ARRAY(self.kind))

    def process_bind_param(self, value: Collection[Any] | None, dialect: Dialect) -> Any:
        """Turn the values into what the driver takes."""
        items = list(value or ())
        return json.dumps(items) if dialect.name == "sqlite" else items


class Spelt(FunctionElement[Any]):
    """An expression with its own text for each database; `{0}` and so on stand for its arguments."""

    sqlite = postgresql = ""

    def __init_subclass__(cls, **options: Any) -> None:
        """Enable SQLAlchemy's statement cache, which looks for this flag on each class itself."""
        super().__init_subclass__(**options)
        cls.inherit_cache = True


@compiles(Spelt)
def _spelt(element: Spelt, compiler: SQLCompiler, **options: Any) -> str:
    text: str = getattr(element, compiler.dialect.name)
    return text.format(*(compiler.process(one, **options) for one in element.clauses))


class _Among(Spelt):
    sqlite = "{0} IN (SELECT value FROM json_each({1}))"
    postgresql = "{0} = ANY ({1})"


def is_among(sought: ColumnElement[Any], name: str) -> ColumnElement[bool]:
    """Return the condition that a column has one of the values bound to `name`."""
    return _Among(sought, bindparam(name, type_=BoundList(sought.type)))


def is_one_of(sought: ColumnElement[Any], values: Collection[Any]) -> ColumnElement[bool]:
    """Return the condition that a column has one of the given values."""
    return _Among(sought, literal(values, BoundList(sought.type)))


class _Same(Spelt):
    sqlite = "{0} = {1}"
    postgresql = "{0} = ANY (ARRAY[{1}])"


def is_same(sought: ColumnElement[Any], given: ColumnElement[Any]) -> ColumnElement[bool]:
    """Return the condition `sought = given`, for a join that goes from the given row to the sought one.

    On PostgreSQL a plain equation can be followed either way, and without statistics the planner chose the wrong one:
    it read every task and looked for its hold. This form can only use an index of `sought`.
    """
    return _Same(sought, given)


class _Numbered(Spelt):
    sqlite = "{0} IN {1}"
    postgresql = "{0} = ANY (ARRAY{1})"


def is_found_by(sought: ColumnElement[Any], found: SelectBase) -> ColumnElement[bool]:
    """Return the condition that `sought` is among the rows of a query; each of them is looked up.

    PostgreSQL's planner assumes that an array has ten elements, whatever the statistics say.
    """
    return _Numbered(sought, found.scalar_subquery())


class _Each(Spelt):
    sqlite = "json_each({0})"
    postgresql = "unnest({0})"


def rows_of(name: str, kind: TypeEngine[Any]) -> tuple[Any, KeyedColumnElement[Any]]:
    """Return a FROM element with a row for each value bound to `name`, and its column."""
    # The name is also the column's, because PostgreSQL names a function's only column after the function's alias.
    values = _Each(bindparam(name, type_=BoundList(kind))).table_valued(column("value", kind), name="value")
    return values, values.c.value
