"""What a client does with limits: lists, sets and deletes them, over HTTP."""

from treadle.client.limit import Limit
from treadle.client.requests import Listing, Requester, path_part
from treadle.errors import InvalidArguments
from treadle.transport.answers import read
from treadle.wire.limits import LimitItem, OnFull, check_limit_name
from treadle.wire.names import GLOBAL


class Limiting(Requester):
    """The part of `Client` that is about limits.

    Every method raises `ConnectionFailed` and the server's `ProblemError`: `LimitNotFound`, `LimitInUse`, `Forbidden` …
    One that is given what no limit can be called raises `InvalidArguments`.
    """

    def limits(self, room: str = GLOBAL, *, limit: int | None = None, offset: int = 0) -> Listing[LimitItem]:
        """Return the limits that are seen from a room, newest first: with their use and how many tasks wait."""
        return self._list(LimitItem, f"/v1/rooms/{path_part(room)}/limits", limit, offset)

    async def limit(self, name: str, *, room: str = GLOBAL) -> LimitItem:
        """Return one limit of a room, with its use and how many tasks wait; raises `LimitNotFound`."""
        return read(LimitItem, await self.request("GET", limit_path(room, name)))

    async def set_limit(
        self,
        name: str,
        *,
        room: str = GLOBAL,
        concurrency: int | None = None,
        rate: tuple[int, float] | None = None,
        burst: int | None = None,
        on_full: OnFull | None = None,
    ) -> LimitItem:
        """Make a limit, or change the one of this name while tasks wait for it and run.

        `concurrency` is the most weight at once, `rate` how many claims in how many seconds; one of them at least.
        `burst` is the most claims at once, the rate's count unless given. When it is full, tasks that are put in wait;
        with `on_full` of `reject` the submit raises `LimitFull`, with `newest` the others that wait are cancelled, with
        `replace` the oldest running ones too, until it fits. Raises `ValidationFailed` for neither of the first
        two, and `InvalidArguments` as `Limit`.
        """
        path = limit_path(room, name)
        caps = Limit(name, concurrency=concurrency, rate=rate, burst=burst, on_full=on_full).caps
        return read(LimitItem, await self.request("PUT", path, caps))

    async def delete_limit(self, name: str, *, room: str = GLOBAL) -> None:
        """Delete a limit.

        Raises `LimitNotFound`, and `LimitInUse` while open tasks or jobs name it, or code runs that counts against it.
        """
        await self.request("DELETE", limit_path(room, name), resend=False)


def limit_path(room: str, name: str) -> str:
    """Return the path at which a room's limit is read, set and deleted, its names quoted.

    Raises `InvalidArguments` for what no limit is called, which would lead elsewhere.
    """
    try:
        check_limit_name(name)
    except ValueError as error:
        raise InvalidArguments(f"{name!r}: {error}") from None
    return f"/v1/rooms/{path_part(room)}/limits/{path_part(name)}"
