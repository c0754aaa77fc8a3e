"""Commands that set and delete limits, and let lines that wait for them move on."""

from dataclasses import dataclass

from treadle_server.access.checks import check_limit
from treadle_server.access.principal import Principal
from treadle_server.domain.limits import BucketId, Caps, Limit, bucket_ids_of
from treadle_server.engine.commands.base import OneRow
from treadle_server.engine.commands.jobs import check_room
from treadle_server.engine.read_set import ReadSet
from treadle_server.engine.unit_of_work import UnitOfWork
from treadle_server.errors import LimitInUse, LimitNotFound

MOST_OPENED = 500
"""How many buckets one command decides; the next one finds the rest."""


@dataclass(slots=True, kw_only=True)
class OfLimit(OneRow):
    """A command about one limit, given by room and name."""

    principal: Principal
    room: str
    name: str

    def reads(self, reads: ReadSet) -> None:
        """Read the limit, and whether anything names it."""
        reads.limits.add((self.room, self.name))
        reads.limits_change = True

    def find(self, work: UnitOfWork) -> Limit | None:
        """Return the limit, if there is one. Raises `InvalidRoomId`, or `Forbidden` if the caller may not change it."""
        check_room(self.room)
        check_limit(self.principal, self.room)
        return work.limits.get((self.room, self.name))


@dataclass(slots=True, kw_only=True)
class SetLimit(OfLimit):
    """Creates a limit, or changes it while tasks wait and run."""

    caps: Caps

    def apply(self, work: UnitOfWork) -> tuple[Limit, bool]:
        """Return the limit, and whether it is new. Raises `InvalidRoomId` or `Forbidden`."""
        known = self.find(work)
        if known is None:
            return work.put_limit(self.caps.limit(self.room, self.name, work.now)), True
        if self.caps.differ(known):
            known = work.put_limit(self.caps.of(known))
        return known, False


@dataclass(slots=True, kw_only=True)
class DeleteLimit(OfLimit):
    """Deletes a limit that nothing uses any more."""

    def apply(self, work: UnitOfWork) -> None:
        """Delete the limit. Raises `InvalidRoomId`, `LimitNotFound`, `Forbidden`, or `LimitInUse`.

        It is in use while open tasks or jobs name it, and while cancelled code that counts against it has not stopped.
        """
        if (limit := self.find(work)) is None:
            raise LimitNotFound(f"there is no limit {self.name!r} in room {self.room}")
        if (self.room, self.name) in work.named_limits or self._is_named_by_now(work, limit):
            raise LimitInUse(
                f"open tasks or jobs use the limit {self.name!r} of room {self.room}, or code that counts against it"
                " has not stopped yet: let them end, or register the jobs without it, with replace: true (raise the"
                " limit meanwhile, if it is in the way)"
            )
        work.delete_limit(limit)

    def _is_named_by_now(self, work: UnitOfWork, limit: Limit) -> bool:
        """Return whether open tasks or jobs that this batch has added, changed or run again name it."""
        keys = (task.limit_key for task in work.tasks.values() if task.completed_at is None)
        if any(one.num == limit.num for key in keys if key is not None for one in bucket_ids_of(key)):
            return True
        jobs = (job for job in work.jobs_by_num.values() if job.room == self.room and job.deleted_at is None)
        return any(one["name"] == self.name for job in jobs for one in work.rules.limits_of(job))


@dataclass(slots=True)
class OpenLimits:
    """Lets lines move on for which room has come by itself; answers for how many buckets."""

    bucket_ids: list[BucketId] | None = None
    """Buckets that may have room; None: at most `MOST_OPENED` of those that have a token by now."""

    rows = MOST_OPENED

    def reads(self, reads: ReadSet) -> None:
        """Read which buckets have a token by now."""
        reads.due_limits = reads.due_limits or self.bucket_ids is None

    def apply(self, work: UnitOfWork) -> int:
        """Have the buckets decided when the batch is written."""
        bucket_ids = work.due_bucket_ids if self.bucket_ids is None else self.bucket_ids
        work.limited.due.update(bucket_ids)
        return len(bucket_ids)


@dataclass(slots=True)
class ForgetIdle:
    """Deletes the rows of full buckets, which are the same without; otherwise each key would leave a row for ever."""

    bucket_ids: list[BucketId]

    @property
    def rows(self) -> int:
        """Return how many rows it may write."""
        return len(self.bucket_ids)

    def reads(self, reads: ReadSet) -> None:
        """Read nothing: the buckets are checked when the batch is written."""

    def apply(self, work: UnitOfWork) -> None:
        """Have those that are full deleted when the batch is written."""
        work.changes.idle_buckets.update(self.bucket_ids)
