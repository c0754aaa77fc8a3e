"""How blocking code uses a client: it runs one coroutine, iterates over several, or reads a list page by page."""

from collections.abc import AsyncIterator, Callable, Coroutine, Generator
from typing import Any, TypeVar

from pydantic import PrivateAttr

from treadle.client.client import Client
from treadle.client.requests import Listing
from treadle.errors import NoClient
from treadle.wire.fields import Model
from treadle.wire.pages import Page

M = TypeVar("M", bound=Model)
R = TypeVar("R")


def block(client: Client, work: Coroutine[Any, Any, R]) -> R:
    """Run a coroutine in the loop in which the client is open; raises `NoClient` and `WouldBlock`."""
    try:
        opening = client.opening()
    except NoClient:
        work.close()
        raise
    return opening.block(work)


def each(run: Callable[[Coroutine[Any, Any, R | None]], R | None], items: AsyncIterator[R]) -> Generator[R]:
    """Yield the items of an asynchronous iterator, none of them None, awaiting each with `run`; raises as both do."""

    async def following() -> R | None:
        return await anext(items, None)

    while (item := run(following())) is not None:
        yield item


class SyncPage(Page[M]):
    """A page of a list for blocking code; a `for` loop goes on with the pages that follow."""

    _after: Callable[[Page[M]], Page[M] | None] = PrivateAttr()

    @classmethod
    def first(cls, client: Client, listing: Listing[M]) -> "SyncPage[M]":
        """Read the first page of a listing; raises what the listing does, `NoClient` and `WouldBlock`."""
        made = cls.model_construct(**block(client, listing.page()).__dict__)
        made._after = lambda page: block(client, listing.after(page))  # noqa: SLF001 - of its own class
        return made

    def __iter__(self) -> Generator[M, None, None]:  # type: ignore[override]  # as in Page
        page: Page[M] | None = self
        while page is not None:
            yield from page.items
            page = self._after(page)
