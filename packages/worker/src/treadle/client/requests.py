"""What each part of the client uses to ask the server: requests, and lists page by page."""

from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from uuid import UUID

from treadle.encryption.fields import opened_task
from treadle.encryption.sealer import Sealer
from treadle.errors import InvalidArguments
from treadle.transport.answers import reading
from treadle.values import brief, plain_text
from treadle.wire import names
from treadle.wire.fields import Model
from treadle.wire.filters import TaskFilter
from treadle.wire.ids import GivenId
from treadle.wire.pages import MOST_OF_PAGE, PAGE, Page
from treadle.wire.status import Status
from treadle.wire.tasks import TaskItem

if TYPE_CHECKING:
    from treadle.transport.http import HttpChannel

M = TypeVar("M", bound=Model)
R = TypeVar("R")


def query_of(wanted: TaskFilter) -> dict[str, Any]:
    """Return a filter as the query parameters of a list of tasks."""
    params = wanted.model_dump(mode="json", exclude_none=True)
    return {name: ",".join(value) if name == "status" else value for name, value in params.items()}


def statuses_of(given: str | Iterable[str]) -> list[Status]:
    """Return one status or several as a list. Raises `InvalidArguments` for none, and for a word that is none."""
    try:
        found = [Status(name) for name in ([given] if isinstance(given, str) else given)]
    except ValueError as error:
        raise InvalidArguments(f"status: {error}: write one of {', '.join(Status)}") from None
    if not found:
        # In a query it can't be told from a status that was left out, with which every task is found.
        raise InvalidArguments(f"status: no status is chosen: name one of {', '.join(Status)}, or leave it out")
    return found


def check_no_empty(given: Mapping[str, Any]) -> None:
    """Raise `InvalidArguments` for a condition that is an empty text or list: older servers match every task then."""
    for name, value in given.items():
        if value in ("", (), [], [""]):
            raise InvalidArguments(f"{name}: is empty; give a value, or leave it out")


def conditions_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the conditions that are not None. Raises `InvalidArguments` for one that is empty, or no text and no id.

    Written as text the latter, for example a dict of tags, would just find nothing.
    """
    found = {name: value for name, value in given.items() if value is not None}
    check_no_empty(found)
    for name, value in found.items():
        for one in value if isinstance(value, list | tuple) else [value]:
            if not isinstance(one, str | UUID):
                example = ", such as user=ann" if name == "tag" else ""
                raise InvalidArguments(f"{name}: write a text{example}, not {brief(one)}")
    return found


def path_part(given: GivenId) -> str:
    """Return a name or id, quoted for a path.

    Raises `InvalidArguments` for text that can't be sent, and for an empty one, which would lead to another path.
    """
    if not (text := str(given)):
        raise InvalidArguments("a room, name or id in the request is empty: give one")
    return names.path_part(plain_text(text))


def path_parts(given: str) -> str:
    """Return a relative path, quoted for a longer path that it can't lead out of.

    Raises `InvalidArguments` for text that can't be sent.
    """
    return "/".join(map(names.path_part, plain_text(given).split("/")))


def tasks_path(room: str | None) -> str:
    """Return the path that lists the tasks of a room, or of all rooms."""
    return "/v1/tasks" if room is None else f"/v1/rooms/{path_part(room)}/tasks"


def job_path(full_name: str, room: str | None = None) -> str:
    """Return the path of a job, as seen from a room, or from its own."""
    return f"/v1/rooms/{path_part(room or full_name.partition(':')[0])}/jobs/{path_part(full_name)}"


def task_of(sealer: Sealer, answer: dict[str, Any]) -> TaskItem:
    """Return the task in a server's answer, decrypted where one of the sealer's keys fits."""
    with reading():
        return TaskItem.model_validate(opened_task(sealer, answer))


class Listing(Generic[M]):
    """A list on the server: `await` it for one page, or iterate with `async for` over all pages to its end.

    `read` fetches a page, by its `limit` and its `offset` or `cursor`. When it is awaited or iterated over, it may
    raise `NoClient`, `ConnectionFailed` and a `ProblemError`.
    """

    def __init__(
        self,
        read: "Callable[[Mapping[str, Any]], Coroutine[Any, Any, Page[M]]]",
        *,
        limit: int | None,
        offset: int,
        by_cursor: bool,
    ) -> None:
        self._read = read
        self._limit = limit
        self._offset = offset
        self._by_cursor = by_cursor

    def __await__(self) -> "Generator[Any, None, Page[M]]":
        return self.page().__await__()

    async def __aiter__(self) -> AsyncIterator[M]:
        page = await self._first(MOST_OF_PAGE)
        while True:
            for item in page.items:
                yield item
            following = await self.after(page)
            if following is None:
                return
            page = following

    async def page(self) -> "Page[M]":
        """Return the page that starts at `offset` and has `limit` items (50 by default).

        If the server ended it early, having searched as much as it does for one request, the rest is requested.
        """
        page = await self._first(PAGE)
        # If the search ended before it had passed the offset, there is no telling where to go on.
        while page.is_partial and len(page.items) < page.limit and (page.items or not page.offset):
            page = await self._continued(page)
        return page

    async def _continued(self, page: "Page[M]") -> "Page[M]":
        """Return the page, extended by what follows the point where it was cut."""
        further = await self._further({"limit": page.limit - len(page.items), "cursor": page.next_cursor})
        items = [*page.items, *further.items]
        known = page.offset + len(items)
        total, is_capped = max(page.total, known), page.total_is_capped
        if further.next_cursor is None:
            total, is_capped = known, False
        told = {"next_cursor": further.next_cursor, "is_partial": further.is_partial}
        return page.model_copy(update={"items": items, "total": total, "total_is_capped": is_capped, **told})

    async def after(self, page: "Page[M]") -> "Page[M] | None":
        """Return the page that follows another one; None after the last."""
        limit = self._limit or MOST_OF_PAGE
        end = page.offset + len(page.items)
        if not self._by_cursor:
            is_last = not page.items or end >= page.total
            return None if is_last else await self._further({"limit": limit, "offset": end})
        # With a cursor, items added meanwhile don't shift the pages that are still to be read.
        cursor = page.next_cursor
        return None if cursor is None else await self._further({"limit": limit, "cursor": cursor})

    async def _further(self, where: Mapping[str, Any]) -> "Page[M]":
        """Return the page at an offset or a cursor; raises `ConnectionLost` for any other."""
        page = await self._read(where)
        with reading():
            if where.get("offset", page.offset) != page.offset or where.get("cursor", "") == page.next_cursor:
                raise ValueError("a page of a list that was read before comes again")
        return page

    async def _first(self, limit: int) -> "Page[M]":
        return await self._read({"limit": limit if self._limit is None else self._limit, "offset": self._offset})


class Requester:
    """What each part of the client makes requests with."""

    sealer: Sealer
    """The client's keys, if any: they encrypt what is sent for encrypted tasks, and decrypt the answers."""

    def http(self) -> "HttpChannel":
        """Return the client's HTTP connections; raises `NoClient` when it is not open."""
        raise NotImplementedError

    async def run(self, work: Coroutine[Any, Any, R]) -> R:
        """Run a coroutine in the event loop in which the client is open; raises `NoClient` when it is not open."""
        raise NotImplementedError

    async def call(self, op: str, fields: Mapping[str, Any] | None = None, *, resend: bool = True) -> Any:
        """Make one request of the protocol, over the socket or else over HTTP, and return the raw answer.

        With `resend=False`, a request whose answer was lost is not repeated, but raises `ConnectionLost`. Raises as
        `Client.call` does.
        """
        raise NotImplementedError

    async def request(self, method: str, path: str, body: Any = None, **how: Any) -> Any:
        """Send one request and return the answer's JSON; like `HttpChannel.request`, but may raise `NoClient`."""
        raise NotImplementedError

    def _list(
        self,
        model: type[M],
        path: str,
        limit: int | None,
        offset: int,
        *,
        params: Mapping[str, Any] | None = None,
        by_cursor: bool = False,
        opened: "Callable[[Sealer, dict[str, Any]], dict[str, Any]] | None" = None,
    ) -> Listing[M]:
        async def read(where: Mapping[str, Any]) -> "Page[M]":
            answer = await self.request("GET", path, params={**(params or {}), **where})
            with reading():
                if opened is not None and self.sealer.has_codec:
                    answer["items"] = [opened(self.sealer, item) for item in answer["items"]]
                page: Page[M] = Page[model].model_validate(answer)  # type: ignore[valid-type]
            return page

        return Listing(read, limit=limit, offset=offset, by_cursor=by_cursor)
