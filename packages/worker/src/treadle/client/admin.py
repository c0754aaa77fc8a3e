"""What a client does for the server's upkeep: it removes ended tasks, and manages webhooks."""

from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from treadle.client.options import seconds
from treadle.client.requests import Listing, Requester, path_part, statuses_of
from treadle.transport.answers import read
from treadle.wire.ids import GivenId
from treadle.wire.prune import PruneAnswer
from treadle.wire.status import Ended, Status
from treadle.wire.webhooks import DeliveryItem, Redelivered, WebhookItem

if TYPE_CHECKING:
    from treadle.wire.webhooks import DeliveryState


class Admin(Requester):
    """The part of `Client` for administration. Every method may raise `ConnectionFailed` and a `ProblemError`."""

    async def prune(
        self,
        *,
        older_than: float | timedelta | None = None,
        status: Status | Ended | Collection[Status | Ended] | None = None,
        dry_run: bool = False,
    ) -> PruneAnswer:
        """Remove ended tasks for some seconds, or report what would be removed; superusers only.

        `older_than` is how long ago they ended, in seconds or a timedelta; by default the server's settings decide.
        `status` is one status or several. Repeat the call until the answer's `done`. Raises `InvalidArguments` for an
        unknown status.
        """
        body: dict[str, Any] = {"dry_run": dry_run}
        if older_than is not None:
            body["older_than"] = seconds(older_than)
        if status is not None:
            body["status"] = statuses_of(status)
        # Safe to repeat after a lost answer: what was removed is not found again.
        answer = await self.request("POST", "/v1/prune", body, resend=True, timeout=120)
        return read(PruneAnswer, answer)

    def webhooks(self, room: str = "@global", *, limit: int | None = None, offset: int = 0) -> Listing[WebhookItem]:
        """Return the caller's webhooks of a room; a superuser gets everybody's."""
        return self._list(WebhookItem, f"/v1/rooms/{path_part(room)}/webhooks", limit, offset)

    async def webhook(self, name: str, *, room: str = "@global") -> WebhookItem:
        """Return one webhook of a room, by its name, without its secret; raises `WebhookNotFound`."""
        return read(WebhookItem, await self.request("GET", _path(room, name)))

    async def set_webhook(
        self,
        name: str,
        url: str,
        *,
        room: str = "@global",
        jobs: Sequence[str] | None = None,
        statuses: Collection[Status | Ended] | None = None,
        rotate: bool = False,
    ) -> WebhookItem:
        """Create or change a webhook; the answer contains the secret only when it is new, or with `rotate`.

        `jobs` are full names and `statuses` any of completed, failed and cancelled (None: all). Raises
        `ValidationFailed` for an invalid URL, and `InvalidArguments` for an unknown status.
        """
        body: dict[str, Any] = {"url": url, "rotate": rotate}
        if jobs is not None:
            body["jobs"] = list(jobs)
        if statuses is not None:
            body["statuses"] = statuses_of(statuses)
        # Not repeated automatically: the answer to a second request would not contain the secret.
        return read(WebhookItem, await self.request("PUT", _path(room, name), body, resend=False))

    async def delete_webhook(self, name: str, *, room: str = "@global") -> None:
        """Delete a webhook, with the deliveries that are still due; raises `WebhookNotFound`."""
        await self.request("DELETE", _path(room, name), resend=False)

    def deliveries(
        self,
        name: str,
        *,
        room: str = "@global",
        state: "DeliveryState" = "dead",
        limit: int | None = None,
        offset: int = 0,
    ) -> Listing[DeliveryItem]:
        """Return a webhook's dead deliveries, or those that are still being tried, newest first.

        Raises `WebhookNotFound` when the list is read.
        """
        return self._list(DeliveryItem, f"{_path(room, name)}/deliveries", limit, offset, params={"state": state})

    async def redeliver(
        self, name: str, ids: "Sequence[GivenId] | None" = None, *, room: str = "@global"
    ) -> Redelivered:
        """Try dead deliveries again at once, the given ones or all; raises `WebhookNotFound`."""
        body = {} if ids is None else {"ids": list(ids)}
        return read(Redelivered, await self.request("POST", f"{_path(room, name)}/redeliver", body))


def _path(room: str, name: str) -> str:
    return f"/v1/rooms/{path_part(room)}/webhooks/{path_part(name)}"
