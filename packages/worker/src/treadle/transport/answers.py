"""Parse a server's answers as the models that the protocol documents."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from treadle.errors import ConnectionLost, TreadleError
from treadle.values import first_wrong, named

M = TypeVar("M", bound=BaseModel)


def read(model: type[M], answer: Any) -> M:
    """Return an answer as its documented model; raises `ConnectionLost` if it does not match."""
    with reading():
        return model.model_validate(answer)


UNREADABLE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What parsing raises for data that is not as documented; `ArithmeticError` is for a time beyond the year range."""


def wrong_in(error: Exception) -> str:
    """Return what is wrong with data over which parsing raised this."""
    return first_wrong(error) if isinstance(error, ValidationError) else named(error)


@contextmanager
def reading() -> Iterator[None]:
    """Turn errors of a block that parses an answer into `ConnectionLost`.

    The request may have been done: the answer came from another program, or another version.
    """
    try:
        yield
    except TreadleError:
        raise
    except UNREADABLE as error:
        raise ConnectionLost(
            f"the server's answer can't be read ({wrong_in(error)}): check that its version is compatible with this one"
        ) from None
