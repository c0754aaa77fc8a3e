"""Building blocks of the tables: metadata, naming of constraints, and conditions spelt as in the indexes."""

from enum import StrEnum

from sqlalchemy import CheckConstraint, ColumnElement, Index, MetaData, literal_column, text

from treadle.wire.status import LEASED, Status

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def quoted(values: object) -> str:
    """Return the values as a list of SQL literals, in order."""
    return ", ".join(f"'{value}'" for value in sorted(values))  # type: ignore[call-overload]


def either(column: str, *values: str) -> str:
    """Return the condition that the column has one of the values.

    For an IN with more than two values SQLite builds a temporary table for each row that it writes: this took 3 of a
    claim's 11 microseconds, for checks and partial indexes. It can also prove an index's OR condition from one part of
    it.
    """
    return "(" + " OR ".join(f"{column} = '{value}'" for value in values) + ")"


def one_of(column: str, values: type[StrEnum]) -> CheckConstraint:
    """Return the constraint that the column has one of the enum's values."""
    return CheckConstraint(either(column, *values), name=f"{column}_known")


IS_LEASED = f"status IN ({quoted(LEASED)})"
"""The condition that a task is claimed or running, spelt as in the indexes."""


def status_in(*statuses: Status) -> ColumnElement[bool]:
    """Return the condition that a task's status is one of these, with literals as in the partial indexes.

    With bound values neither planner could prove that such an index applies.
    """
    if len(statuses) == 1:
        return literal_column(f"tasks.status = '{statuses[0]}'")
    return literal_column(f"tasks.status IN ({quoted(statuses)})")


def partial_index(name: str, *columns: object, where: str, unique: bool = False) -> Index:
    """Return an index of the rows for which `where` holds, on both databases."""
    condition = text(where)
    return Index(name, *columns, unique=unique, sqlite_where=condition, postgresql_where=condition)  # type: ignore[arg-type]
