"""What the tables are made with: their metadata, the names of constraints, and conditions as the indexes spell them."""

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

    SQLite makes a table of an IN with more than two values anew for each row that it writes: 3 of 11 microseconds of
    a claim went into such tables of checks and partial indexes. It also proves an index's OR from one of its parts.
    """
    return "(" + " OR ".join(f"{column} = '{value}'" for value in values) + ")"


def one_of(column: str, values: type[StrEnum]) -> CheckConstraint:
    """Return the constraint that the column has one of the values of the enum."""
    return CheckConstraint(either(column, *values), name=f"{column}_known")


IS_LEASED = f"status IN ({quoted(LEASED)})"
"""The condition that a task is claimed or running, as the indexes say it."""


def status_in(*statuses: Status) -> ColumnElement[bool]:
    """Return the condition that a task's status is one of these, spelt with literals as in the partial indexes.

    With a bound value neither planner could prove that such an index applies.
    """
    if len(statuses) == 1:
        return literal_column(f"tasks.status = '{statuses[0]}'")
    return literal_column(f"tasks.status IN ({quoted(statuses)})")


def partial_index(name: str, *columns: object, where: str, unique: bool = False) -> Index:
    """Return an index of the rows for which `where` holds, on both databases."""
    condition = text(where)
    return Index(name, *columns, unique=unique, sqlite_where=condition, postgresql_where=condition)  # type: ignore[arg-type]
