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


@contextmanager
def reading() -> Iterator[None]:
    """Turn errors of a block that parses an answer into `ConnectionLost`.

    The request may have been done: the answer came from another program, or another version.
    """
    try:
        yield
    except TreadleError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        wrong = first_wrong(error) if isinstance(error, ValidationError) else named(error)
        raise ConnectionLost(
            f"the server's answer can't be read ({wrong}): check that its version is compatible with this one"
        ) from None
