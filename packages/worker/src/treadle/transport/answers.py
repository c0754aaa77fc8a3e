"""Answers of a server, read as what they are documented to be."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from treadle.errors import ConnectionLost, TreadleError
from treadle.values import first_wrong, named

M = TypeVar("M", bound=BaseModel)


def read(model: type[M], answer: Any) -> M:
    """Return an answer as the model that it is documented as; raises `ConnectionLost` for one that is another."""
    with reading():
        return model.model_validate(answer)


@contextmanager
def reading() -> Iterator[None]:
    """Raise `ConnectionLost` where the block, which takes an answer apart, finds it to be none as documented.

    What was asked for may have been done: a stranger, or another version, has answered.
    """
    try:
        yield
    except TreadleError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        wrong = first_wrong(error) if isinstance(error, ValidationError) else named(error)
        raise ConnectionLost(
            f"the server's answer can't be read ({wrong}): are its version and this one's compatible?"
        ) from None
