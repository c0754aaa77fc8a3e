"""What a client does for the server's upkeep: removal of ended tasks, and webhooks."""

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from treadle.client.options import seconds
from treadle.client.requests import Listing, Requester, path_part
from treadle.transport.answers import read
from treadle.wire.ids import GivenId
from treadle.wire.prune import PruneAnswer
from treadle.wire.webhooks import DeliveryItem, Redelivered, WebhookItem

if TYPE_CHECKING:
    from treadle.wire.webhooks import DeliveryState


class Admin(Requester):
    """A part of `Client`. Every method raises `ConnectionFailed` and the server's `ProblemError`."""

    async def prune(
        self,
        *,
        older_than: float | timedelta | None = None,
        status: str | Sequence[str] | None = None,
        dry_run: bool = False,
    ) -> PruneAnswer:
        """Remove ended tasks for some seconds, or say what would go; superusers only.

        `older_than` is how long ago they ended, in seconds or a timedelta; left out, the server's settings say.
        `status` is one or several. Ask again until `done`.
        """
        body: dict[str, Any] = {"dry_run": dry_run}
        if older_than is not None:
            body["older_than"] = seconds(older_than)
        if status is not None:
            body["status"] = [status] if isinstance(status, str) else list(status)
        # A removal that is repeated after a lost answer finds nothing twice.
        answer = await self.request("POST", "/v1/prune", body, resend=True, timeout=120)
        return read(PruneAnswer, answer)

    def webhooks(self, room: str = "@global", *, limit: int | None = None, offset: int = 0) -> Listing[WebhookItem]:
        """Return the caller's webhooks of a room; a superuser's answer has everybody's."""
        return self._list(WebhookItem, f"/v1/rooms/{path_part(room)}/webhooks", limit, offset)

    async def webhook(self, name: str, *, room: str = "@global") -> WebhookItem:
        """Return one webhook of a room, by its name and without its secret; raises `WebhookNotFound`."""
        return read(WebhookItem, await self.request("GET", _path(room, name)))

    async def set_webhook(
        self,
        name: str,
        url: str,
        *,
        room: str = "@global",
        jobs: Sequence[str] | None = None,
        statuses: Sequence[str] | None = None,
        rotate: bool = False,
    ) -> WebhookItem:
        """Make a webhook or change it; the answer to a new one, or to `rotate`, has the secret, this once.

        `jobs` (None: all) are full names, `statuses` (None: all) of completed, failed, cancelled. Raises
        `ValidationFailed` for a URL that is none.
        """
        body: dict[str, Any] = {"url": url, "rotate": rotate}
        if jobs is not None:
            body["jobs"] = list(jobs)
        if statuses is not None:
            body["statuses"] = list(statuses)
        # Not sent again by itself: the answer to a second one would not have the secret.
        return read(WebhookItem, await self.request("PUT", _path(room, name), body, resend=False))

    async def delete_webhook(self, name: str, *, room: str = "@global") -> None:
        """Delete a webhook with all that it was still to be told; raises `WebhookNotFound`."""
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
        """Return a webhook's deliveries that are dead, or those that are still tried, newest first.

        Raises, when it is read, `WebhookNotFound`.
        """
        return self._list(DeliveryItem, f"{_path(room, name)}/deliveries", limit, offset, params={"state": state})

    async def redeliver(
        self, name: str, ids: "Sequence[GivenId] | None" = None, *, room: str = "@global"
    ) -> Redelivered:
        """Try dead deliveries again, at once: those named, or all; raises `WebhookNotFound`."""
        body = {} if ids is None else {"ids": list(ids)}
        return read(Redelivered, await self.request("POST", f"{_path(room, name)}/redeliver", body))


def _path(room: str, name: str) -> str:
    return f"/v1/rooms/{path_part(room)}/webhooks/{path_part(name)}"
