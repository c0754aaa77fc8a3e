"""What a client does with flows: it lists them, shows one, and steers all of its tasks at once, over HTTP."""

from treadle.client.requests import Listing, Requester, path_part
from treadle.encryption.fields import opened_texts
from treadle.transport.answers import read, reading
from treadle.wire.bulk import BulkResult
from treadle.wire.flows import FlowItem, FlowView
from treadle.wire.ids import GivenId


class Flows(Requester):
    """The part of `Client` for flows.

    Every method may raise `ConnectionFailed` and a `ProblemError`: `FlowNotFound`, `Forbidden` …
    """

    def flows(
        self,
        *,
        room: str | None = None,
        id: GivenId | None = None,  # noqa: A002 - the wire's name
        limit: int | None = None,
        offset: int = 0,
    ) -> Listing[FlowItem]:
        """Return the flows that you may read, newest first, or those that can be seen from a room.

        `id` is the beginning of their ids.
        """
        return self._list(FlowItem, "/v1/flows", limit, offset, params={"room": room, "id": id})

    async def flow(self, flow_id: GivenId) -> FlowView:
        """Return a flow: its counts, its first 2,000 tasks, and what they wait for; raises `FlowNotFound`."""
        answer = await self.request("GET", _path(flow_id))
        with reading():
            tasks = [opened_texts(self.sealer, task) for task in answer["tasks"]]
            return FlowView.model_validate({**answer, "tasks": tasks})

    async def cancel_flow(self, flow_id: GivenId) -> BulkResult:
        """Cancel the open tasks of a flow; the answer says what became of each. Raises `FlowNotFound`."""
        return await self._steer(flow_id, "cancel")

    async def pause_flow(self, flow_id: GivenId) -> BulkResult:
        """Pause the waiting and running tasks of a flow. Raises as `cancel_flow` does."""
        return await self._steer(flow_id, "pause")

    async def resume_flow(self, flow_id: GivenId) -> BulkResult:
        """Let the paused tasks of a flow go on. Raises as `cancel_flow` does."""
        return await self._steer(flow_id, "resume")

    async def rerun_failed(self, flow_id: GivenId) -> BulkResult:
        """Rerun the failed tasks of a flow, and put back the tasks that were cancelled because of them.

        A task that also waits for one that was cancelled by hand is blocked until that one is rerun. Raises as
        `cancel_flow` does.
        """
        return await self._steer(flow_id, "rerun-failed")

    async def _steer(self, flow_id: GivenId, verb: str) -> BulkResult:
        return read(BulkResult, await self.request("POST", f"{_path(flow_id)}/{verb}"))


def _path(flow_id: GivenId) -> str:
    return f"/v1/flows/{path_part(flow_id)}"
