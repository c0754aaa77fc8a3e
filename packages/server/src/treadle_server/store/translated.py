"""Context managers that translate a driver's errors, cheap enough for the hot path; and errors of lost races."""

from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Any

from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError


class LostUpdate(RuntimeError):
    """A guarded update met a row that has changed since it was read, by another writer. The batch is retried."""


class Overtaken(LostUpdate):
    """Another server has inserted, or is about to insert, tasks that count against the same limit."""


class ClockWasSet(LostUpdate):
    """Another server has noted a step of the clock that the transaction's time does not include."""


class Translated:
    """Raises what `translate` returns for an error in the block; where it returns None, the error itself.

    A generator-based context manager takes 2.3 of a lone submit's 700 microseconds, this one 0.4, and each batch uses
    four.
    """

    __slots__ = ("_translate",)

    def __init__(self, translate: Callable[[BaseException], Exception | None]) -> None:
        self._translate = translate

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(self, _kind: object, error: BaseException | None, _trace: TracebackType | None) -> None:
        """Raise the translated error."""
        if error is not None and (told := self._translate(error)) is not None:
            raise told from error


def named(statement: str) -> Translated:
    """Raise asyncpg's errors in the block as SQLAlchemy's, so that one place can classify both.

    These are `IntegrityError`, `OperationalError` and `DBAPIError`.
    """
    return Translated(partial(_as_sqlalchemy, statement))


def hide_row(error: Any) -> None:
    """Take from PostgreSQL's error the detail, which may show a row's values: payloads don't belong in a log."""
    if (getattr(error, "sqlstate", None) or "")[:2] in {"22", "23", "P0"}:
        error.detail = None


def _as_sqlalchemy(statement: str, error: BaseException) -> DBAPIError | None:
    import asyncpg

    hide_row(error)
    match error:
        case asyncpg.IntegrityConstraintViolationError():
            return IntegrityError(statement, None, error)
        case (
            asyncpg.PostgresConnectionError()
            | asyncpg.InterfaceError()
            | asyncpg.InternalClientError()
            | asyncpg.OperatorInterventionError()
            | asyncpg.CannotConnectNowError()
            | asyncpg.TooManyConnectionsError()
        ):
            return OperationalError(statement, None, error)
        case asyncpg.PostgresError():
            return DBAPIError(statement, None, error)
        case _:
            return None
