"""What a client does with schedules: it lists, sets, pauses, runs and deletes them, over HTTP."""

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from treadle.client.options import seconds, template
from treadle.client.requests import Listing, Requester, path_part, task_of
from treadle.client.sealing import NamedJobs
from treadle.encryption.fields import opened_schedule
from treadle.transport.answers import reading
from treadle.values import plain_request
from treadle.wire.names import GLOBAL
from treadle.wire.schedules import Missed, ScheduleItem
from treadle.wire.tasks import TaskItem

if TYPE_CHECKING:
    from treadle.client.options import Options

_OF_EACH = ("payload", "cron", "zone", "interval", "paused", "content_hash", "if_version")


class Scheduling(Requester):
    """The part of `Client` for schedules.

    Every method may raise `ConnectionFailed` and a `ProblemError`: `ScheduleNotFound`, `Forbidden`, `ValidationFailed`
    …
    """

    _named_jobs: NamedJobs

    def schedules(self, room: str = GLOBAL, *, limit: int | None = None, offset: int = 0) -> Listing[ScheduleItem]:
        """Return the schedules that can be seen from a room, newest first, each with its next tick and last task."""
        return self._list(ScheduleItem, f"/v1/rooms/{path_part(room)}/schedules", limit, offset, opened=opened_schedule)

    async def schedule(self, name: str, *, room: str = GLOBAL) -> ScheduleItem:
        """Return one schedule of a room, with its next tick and last task; raises `ScheduleNotFound`."""
        return self._schedule_of(await self.request("GET", schedule_path(room, name)))

    async def set_schedule(
        self,
        name: str,
        *,
        job: str,
        room: str = GLOBAL,
        payload: Mapping[str, Any] | None = None,
        cron: str | None = None,
        zone: str | None = None,
        interval: float | timedelta | None = None,
        jitter: float | timedelta = 0,
        missed: Missed = "late",
        options: "Options | None" = None,
        deadline: float | timedelta | None = None,
        paused: bool | None = None,
        content_hash: str | None = None,
        if_version: int | None = None,
    ) -> ScheduleItem:
        """Create a schedule, or replace the one of this name, which keeps its next tick if its times stay the same.

        `cron` (in `zone`) or `interval` says when; `options` are those of each task, and `deadline` is how long after
        its tick a task is still of use. Durations are seconds or timedeltas. The payload of an encrypted job is checked
        and encrypted here, as in `submit_raw`. Raises `InvalidArguments` for options that only a single task can have,
        `JobNotFound`, `InvalidPayload`, `TaskConflict` because of `if_version`, and `ValidationFailed` for an invalid
        time.
        """
        if payload is not None or self.sealer.has_codec:
            plain = plain_request(name, {"payload": payload or {}})["payload"]
            payload = await self._named_jobs.payload(self, job, room, plain)
        every = seconds(interval)
        given = dict(zip(_OF_EACH, (payload, cron, zone, every, paused, content_hash, if_version), strict=True))
        body = template(options, deadline)
        body |= {"job": job, "jitter": seconds(jitter), "missed": missed}
        body |= {name: value for name, value in given.items() if value is not None}
        return self._schedule_of(await self.request("PUT", schedule_path(room, name), body))

    async def pause_schedule(self, name: str, *, room: str = GLOBAL) -> ScheduleItem:
        """Pause a schedule: it submits no tasks until it is resumed. Raises `ScheduleNotFound`."""
        return await self._patch(room, name, paused=True)

    async def resume_schedule(self, name: str, *, room: str = GLOBAL) -> ScheduleItem:
        """Let a paused schedule go on, with its next tick counted from now. Raises `ScheduleNotFound`."""
        return await self._patch(room, name, paused=False)

    async def run_schedule(self, name: str, *, room: str = GLOBAL) -> TaskItem:
        """Submit a schedule's task now and return it.

        Raises `ScheduleNotFound`, and `TaskConflict` while its last task is open.
        """
        return task_of(self.sealer, await self.request("POST", f"{schedule_path(room, name)}/run"))

    async def delete_schedule(self, name: str, *, room: str = GLOBAL) -> None:
        """Delete a schedule; a task of it that is running goes on. Raises `ScheduleNotFound`."""
        await self.request("DELETE", schedule_path(room, name), resend=False)

    async def _patch(self, room: str, name: str, **fields: Any) -> ScheduleItem:
        answer = await self.request("PATCH", schedule_path(room, name), fields, resend=True)
        return self._schedule_of(answer)

    def _schedule_of(self, answer: dict[str, Any]) -> ScheduleItem:
        with reading():
            return ScheduleItem.model_validate(opened_schedule(self.sealer, answer))


def schedule_path(room: str, name: str) -> str:
    """Return the path at which a room's schedule is read, set and deleted, with its names quoted."""
    return f"/v1/rooms/{path_part(room)}/schedules/{path_part(name)}"
