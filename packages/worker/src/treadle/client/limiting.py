"""What a client does with limits: it lists, sets and deletes them, over HTTP."""

from treadle.client.limit import Limit
from treadle.client.requests import Listing, Requester, path_part
from treadle.errors import InvalidArguments
from treadle.transport.answers import read
from treadle.wire.limits import LimitItem, OnFull, check_limit_name
from treadle.wire.names import GLOBAL


class Limiting(Requester):
    """The part of `Client` for limits.

    Every method may raise `ConnectionFailed` and a `ProblemError`: `LimitNotFound`, `LimitInUse`, `Forbidden` … For a
    name that no limit can have, it raises `InvalidArguments`.
    """

    def limits(self, room: str = GLOBAL, *, limit: int | None = None, offset: int = 0) -> Listing[LimitItem]:
        """Return the limits that can be seen from a room, newest first, each with its use and its waiting tasks."""
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
        """Create a limit, or change the one of this name, even while tasks wait for it or run.

        `concurrency` is the most weight at once, `rate` is how many claims in how many seconds; give at least one of
        them. `burst` is the most claims at once, by default the rate's count. When the limit is full, submitted tasks
        wait, unless `on_full` says otherwise: with `reject` the submit raises `LimitFull`; with `newest` the other
        waiting tasks are cancelled; with `replace` the oldest running ones too, until it fits. Raises
        `ValidationFailed` without `concurrency` and `rate`, and `InvalidArguments` as `Limit` does.
        """
        path = limit_path(room, name)
        caps = Limit(name, concurrency=concurrency, rate=rate, burst=burst, on_full=on_full).caps
        return read(LimitItem, await self.request("PUT", path, caps))

    async def delete_limit(self, name: str, *, room: str = GLOBAL) -> None:
        """Delete a limit.

        Raises `LimitNotFound`, and `LimitInUse` while open tasks or jobs name it, or tasks run that count against it.
        """
        await self.request("DELETE", limit_path(room, name), resend=False)


def limit_path(room: str, name: str) -> str:
    """Return the path at which a room's limit is read, set and deleted, with its names quoted.

    Raises `InvalidArguments` for a name that no limit can have, as it would lead to another path.
    """
    try:
        check_limit_name(name)
    except ValueError as error:
        raise InvalidArguments(f"{name!r}: {error}") from None
    return f"/v1/rooms/{path_part(room)}/limits/{path_part(name)}"
