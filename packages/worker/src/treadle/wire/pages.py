"""Pages of lists: how one is requested, and what comes with it."""

from collections.abc import Iterator
from typing import Any, Generic, TypeVar

from treadle.wire.fields import Model

T = TypeVar("T")

PAGE = 50
"""Items of a page if no `limit` is given."""

MOST_OF_PAGE = 500
"""The most items of a page."""


class Page(Model, Generic[T]):
    """A part of a list, newest first; a `for` loop goes through its items."""

    items: list[T]
    total: int
    total_is_capped: bool = False
    """True if there are more than `total`: counting stopped there."""
    limit: int
    offset: int = 0
    next_cursor: str | None = None
    is_partial: bool = False
    """For tasks: true if the page ends before `limit` because the search stopped early or the tasks are large;
    `next_cursor` continues from there."""

    def __reduce__(self) -> tuple[Any, ...]:
        # The class of a parametrised page can't be found by name, and what fetches the next page has a connection.
        return _alone, (self.__dict__,)

    # pydantic's own method iterates over the fields, which nobody expects of a list.
    def __iter__(self) -> Iterator[T]:  # type: ignore[override]
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)


def _alone(fields: dict[str, Any]) -> "Page[Any]":
    return Page.model_construct(**fields)
