"""Commits that fail, commits whose answer is lost, and servers that are killed at one."""

import asyncio
from collections.abc import Coroutine
from copy import deepcopy
from dataclasses import replace
from typing import Any

from tests.model.asking import Asking
from tests.model.looking import MOST, Differs
from tests.model.operations import Claim, Crash, EditMany, Operation, Service, answered, is_chosen
from tests.model.operations.base import nth
from tests.model.reference import Treadle
from tests.model.sites import Site, ended

TURNS = 50
"""Turns of the loop that an answer is waited for which must not come."""


def _looks(operation: Operation) -> int:
    """Return how many commits come before that of what is asked: a claim looks up its worker, and its key."""
    return 0 if not isinstance(operation, Claim) else 1 if operation.key is None else 2


class Failing(Asking):
    """What is not answered, and yet done or not."""

    async def _fail(self, operation: Operation, number: int, *, done: bool) -> None:
        """Let the commit fail, or its answer be lost: then the model does it, and hands claims back."""
        site, self.knows_turns = self.sites[number], False
        request = self._request(operation)
        if request is None:
            return
        # What a claim looks up before is done.
        with site.failing(done=done, after=_looks(operation)) as faults:
            status, body = await self._ask(operation, request, number)
        if not faults:
            await self._hear_of_instances(site)
            self._compare(operation, status, body)
            return
        if status != 503 and not (status == 200 and isinstance(operation, EditMany)):
            raise Differs(f"the commit failed, and the answer is {status}: {body}")
        await site.settle()
        if status == 200 and isinstance(operation, EditMany):
            moved = await self._edit_unseen(operation, site)
            if not (body["versions"].keys() <= moved if done else body["versions"].keys() == moved):
                raise Differs(f"the commit failed, {moved} were edited, and the answer is {body}")
            await self._reload(site)
        elif done:
            await self._do_unseen(operation, site)
            await self._reload(site)
        elif isinstance(operation, Claim):
            answered(operation, replace(self._at(None), knows_turns=False, least=0))

    async def _do_unseen(self, operation: Operation, site: Site, *, is_handed_back: bool = True) -> None:
        """Let the model do what nobody was told of: what was new, and what was claimed, is seen in the lists alone."""
        tasks = await self._get(site, f"/v1/tasks?limit={MOST}")
        workers = await self._get(site, f"/v1/workers?limit={MOST}")
        new = [one["id"] for one in reversed(tasks["items"]) if one["id"] not in self.model.tasks]
        new += [one["id"] for one in workers["items"] if one["id"] not in self.model.workers]
        await self._hear_of_instances(site)
        if isinstance(operation, Claim):
            ids = {one["id"] for one in tasks["items"] if self._has_run_since(one)}
            self._claim_unseen(operation, ids, is_handed_back=is_handed_back)
        else:
            answered(operation, replace(self._at(None), names=(one for one in new if not is_chosen(one))))

    async def _edit_unseen(self, operation: EditMany, site: Site) -> set[str]:
        """Let the model do those of the edits that were committed: what has a payload to be checked comes later.

        Return the ids of their tasks.
        """
        tasks = await self._get(site, f"/v1/tasks?limit={MOST}")
        known = self.model.tasks
        moved = {one["id"] for one in tasks["items"] if one["version"] != known[one["id"]].version}
        done = [edit for edit in operation.edits if (task := nth(edit[0], known.values())) and task.id in moved]
        answered(replace(operation, edits=tuple(done)), self._at(None))
        return moved

    def _has_run_since(self, shown: dict[str, Any]) -> bool:
        return shown["id"] in self.model.tasks and shown["run_id"] != self.model.tasks[shown["id"]].run_id

    def _claim_unseen(self, operation: Claim, ids: set[str], *, is_handed_back: bool) -> None:
        """Let the model claim just these, in an order that is right, and hand them back: nobody has them."""
        then, left, key = deepcopy(self.model), set(ids), operation.key
        operation = replace(operation, key=None)
        answered(operation, replace(self._at({"tasks": []}, then=then), knows_turns=False, least=0))
        while left:
            task_id = next((one for one in sorted(left) if self._claims_first(operation, one, then)), None)
            if task_id is None:
                raise Differs(f"the server claimed {left}, which the model would not")
            left.discard(task_id)
        claimed = [self.model.tasks[task_id] for task_id in ids]
        self.model.keep_claims(next((str(task.worker_id) for task in claimed), ""), key, operation.most, claimed)
        for task_id in ids if is_handed_back else ():
            self.model.hand_back(self.model.tasks[task_id], self.world.now(), said={"kind": "returned"})

    def _claims_first(self, operation: Claim, task_id: str, then: Treadle) -> bool:
        """Let the model claim the task, if it may be the first one that it claims."""
        before, self.model = self.model, deepcopy(self.model)
        at = self._at({"tasks": [{"id": task_id}]}, then=then)
        _, claimed = answered(operation, replace(at, knows_turns=False, least=0))
        if [one["id"] for one in claimed] == [task_id]:
            return True
        self.model = before
        return False

    # Servers that are killed

    async def _begin_anew(self, number: int) -> None:
        """Another server has begun in the place of one, and swept for the first time."""
        self.knows_turns = len(self.sites) == 1
        self.model.restart(number)
        self.model.sweep(self.world.now(), self.world.passed(), number)
        await self._reload(self.sites[number])

    async def _crash(self, crash: Crash, number: int) -> None:
        """Kill the server at the commit, and let the model do what was committed: nobody was told of it."""
        operation, site = crash.operation, self.sites[number]
        if isinstance(operation, Service):
            doing: Coroutine[Any, Any, Any] = site.turn(operation.name)
        elif (request := self._request(operation)) is not None:
            doing = self._ask(operation, request, number)
        else:
            return
        with site.dying(done=crash.done, after=crash.after) as stopped:
            asked, stops = asyncio.create_task(doing), asyncio.create_task(stopped.wait())
            await asyncio.wait({asked, stops}, return_when=asyncio.FIRST_COMPLETED)
            # Whoever was answered too early is heard of in the next turns of the loop.
            for _ in range(TURNS if stopped.is_set() else 0):
                await asyncio.sleep(0)
            await ended(stops)
            if not stopped.is_set():
                await self._not_killed(operation, number, await asked)
                return
            is_answered = asked.done()
            await self.world.kill(self.sites, number)
            if is_answered:
                raise Differs(f"it was answered before its commit was: {asked.result()}")
            await ended(asked)
        await self._resume(crash, number)

    async def _not_killed(self, operation: Operation, number: int, answer: Any) -> None:
        await self._hear_of_instances(self.sites[number])
        if isinstance(operation, Service):
            operation.answer(replace(self._at(None), server=number))
        else:
            self._compare(operation, *answer)

    async def _resume(self, crash: Crash, number: int) -> None:
        operation, site, commits = crash.operation, self.sites[number], crash.after + crash.done
        if isinstance(operation, Service):
            await self._hear_of_instances(site)
            operation.begin(replace(self._at(None), server=number), commits)
        elif isinstance(operation, Claim) and commits <= _looks(operation):
            if commits:
                # It has looked its worker up.
                answered(replace(operation, key=None), replace(self._at(None), knows_turns=False, least=0))
        elif isinstance(operation, EditMany) and commits:
            await self._edit_unseen(operation, site)
        elif commits:
            await self._do_unseen(operation, site, is_handed_back=False)
        await self._begin_anew(number)
