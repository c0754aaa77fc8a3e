"""Asks the real thing, and compares its answers with the model's."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tests.model.looking import MOST, Differs, Looking, check
from tests.model.operations import ByRun, Claim, Moment, Operation, Request, answered, is_chosen
from tests.model.reference import Treadle
from tests.model.sites import Site
from tests.model.worlds import World


def ids_of(body: Any) -> Iterator[str]:
    """Give the ids that an answer names and no submitter chose, in its order."""
    for one in body.get("tasks") or [body]:
        if isinstance(one, dict) and "id" in one and not is_chosen(one["id"]):
            yield one["id"]


class Asking(Looking):
    """Requests one at a time."""

    def __init__(self, world: World, sites: list[Site]) -> None:
        super().__init__(world, sites)
        self.knows_turns = len(sites) == 1
        """Whether it is known whose turn it is, and so what a claim gives."""

    async def _one(self, operation: Operation, number: int) -> None:
        if (request := self._request(operation)) is not None:
            status, body = await self._ask(operation, request, number)
            await self._hear_of_instances(self.sites[number])
            self._compare(operation, status, body)

    def _request(self, operation: Operation) -> Request | None:
        """Return what is to be asked; nothing by a credential that nobody was given, for its claim was not answered."""
        request = operation.request(self.model, self.world.now())
        is_known = request is None or request.user.run is None or request.user.run in self.world.tokens
        return request if is_known else None

    async def _ask(self, operation: Operation, request: Request, number: int) -> tuple[int, Any]:
        site = self.sites[number]
        if isinstance(operation, Claim) and len(self.sites) > 1:
            # What another server put in is found by notices, which are hints, or by this.
            await site.turn("poll")
        if isinstance(operation, ByRun):
            # When a credential ends is told by the clock that the last transaction left, or the sweeper's last turn.
            await site.engine.store.read_clock()
        return await site.ask(request)

    async def _hear_of_instances(self, site: Site) -> None:
        """Tell the model the ids of tasks that schedules have made since."""
        self.model.coming = {}
        if self.model.schedules:
            tasks = await self._get(site, f"/v1/tasks?limit={MOST}")
            new = [one for one in reversed(tasks["items"]) if one["id"] not in self.model.tasks]
            made = [one for one in new if "schedule" in (one["tags"] or {})]
            self.model.coming = {(one["room_id"], one["tags"]["schedule"]): one["id"] for one in made}

    def _compare(
        self, operation: Operation, status: int, body: Any, *, then: Treadle | None = None, is_in_batch: bool = False
    ) -> None:
        """Compare the answers; with `then`, the model when the requests were made, only what no order changes."""
        is_crowded = then is not None
        at = replace(self._at(body, is_crowded=is_crowded, then=then), is_in_batch=is_in_batch)
        try:
            expected = answered(operation, at)
        except StopIteration:
            raise Differs(f"the model has a new task, and the answer is {status}: {body}") from None
        if status >= 400:
            seen = (body or {}).get("type", "").rpartition("/")[2]
        else:
            seen = None if body is None else operation.seen(body)
        if is_crowded and status < 400 and expected[0] < 400:
            expected, seen = (expected[0], operation.gist(expected[1])), operation.gist(seen)
        check({"status": expected[0], "answer": expected[1]}, {"status": status, "answer": seen}, "the answers differ")

    def _at(self, body: Any, *, is_crowded: bool = False, then: Treadle | None = None) -> Moment:
        # Who holds a unique key, or has an id already, is told of too: none of these is new.
        told = ids_of(body) if isinstance(body, dict) else iter(())
        names = (one for one in told if one not in self.model.tasks)
        knows_turns = self.knows_turns and not is_crowded
        # Of several servers each leaves to the others what it does not claim: it may read less than it could give.
        least = 0 if is_crowded else 1 if len(self.sites) > 1 else None
        return Moment(
            self.model, then or self.model, self.world.now(), names, body,
            knows_turns=knows_turns, least=least, passed=self.world.passed(),
        )  # fmt: skip
