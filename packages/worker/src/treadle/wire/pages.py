"""Parts of lists: how a page is asked for, and what comes with it."""

from collections.abc import Iterator
from typing import Any, Generic, TypeVar

from treadle.wire.fields import Model

T = TypeVar("T")

PAGE = 50
"""Items of a page that says no `limit`."""

MOST_OF_PAGE = 500
"""Items of a page at most."""


class Page(Model, Generic[T]):
    """A part of a list, newest first; a `for` loop goes through its items."""

    items: list[T]
    total: int
    total_is_capped: bool = False
    """True when there are more than `total`: counting stopped there."""
    limit: int
    offset: int = 0
    next_cursor: str | None = None
    is_partial: bool = False
    """Of tasks: true when it ends before `limit`, because enough were looked through or because they are large;
    `next_cursor` goes on there."""

    def __reduce__(self) -> tuple[Any, ...]:
        # By no name is a page of tasks found, nor what asks for those that follow: that has a connection.
        return _alone, (self.__dict__,)

    # A model's own gives its fields, which nobody looks for in a list.
    def __iter__(self) -> Iterator[T]:  # type: ignore[override]
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)


def _alone(fields: dict[str, Any]) -> "Page[Any]":
    return Page.model_construct(**fields)
