"""Runs a program against the model and the real thing, step by step, and compares all that can be seen."""

import asyncio
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from itertools import permutations, product

from tests.model.failing import Failing
from tests.model.looking import MOST, Differs, check
from tests.model.operations import (
    Claim,
    Crash,
    Faulty,
    Operation,
    Other,
    Pass,
    Restart,
    Service,
    SetLimit,
    Step,
    Together,
    task_seen,
)
from tests.model.operations.limits import IN_ROOMS, LIMITS
from tests.model.sites import Site
from treadle.wire.status import Status

MANY = 1000
"""A concurrency that is no limit."""

SELDOM = 4
"""Steps after which queues, workers, targets and schedules are looked at; tasks are after each."""


class Lockstep(Failing):
    """The model beside a server, or two."""

    async def run(self, program: Sequence[Operation]) -> None:
        """Run the program. Raises `Differs`, which names the step."""
        for number, operation in enumerate(program):
            try:
                await self.step(operation)
                if number % SELDOM == 0 or number == len(program) - 1:
                    await self.look_around(self.sites[-1])
            except Differs as error:
                raise Differs(f"step {number}, {operation}: {error}") from None

    async def step(self, operation: Operation) -> None:
        """Do it to both, and compare the answers and what is to be seen then."""
        if isinstance(operation, Other):
            await self._step(operation.operation, len(self.sites) - 1)
        else:
            await self._step(operation, 0)

    async def _step(self, operation: Operation, number: int) -> None:
        await self._let_through(self.sites[number])
        match operation:
            case Pass(seconds):
                await self.world.advance(seconds)
                if self._has_rates():
                    # Tokens have come: those who wait are looked at, as they are by the promoter's next turn.
                    await self.sites[number].turn("fill")
                return
            case Step(seconds):
                await self.world.jump(seconds)
                self.model.see_clock(self.world.now(), self.world.passed())
                for site in self.sites:
                    site.see_clock(self.world.now())
                if self._has_rates():
                    await self._fill_anew(number)
                return
            case Service(name):
                await self.sites[number].turn(name)
                await self._hear_of_instances(self.sites[number])
                operation.answer(replace(self._at(None), server=number))
            case Restart():
                await self.world.restart(self.sites, number)
                await self._begin_anew(number)
            case Together(operations):
                await self._together(operations, number)
            case Faulty(inner, done):
                await self._fail(inner, number, done=done)
            case Crash():
                await self._crash(operation, number)
            case _:
                await self._one(operation, number)
        await self.look(self.sites[number])

    async def _let_through(self, site: Site) -> None:
        """Have who waits looked at while nobody may take those who were let through: that takes a second."""
        waiting = [one for one in self.model.tasks.values() if one.counts and one.status is Status.PENDING]
        capacities = [worker.concurrency for worker in self.model.workers.values() if worker.concurrency is not None]
        is_late = any(one.deadline is not None and one.deadline <= self.world.now() for one in waiting)
        if is_late or any(one.weight > capacity for one in waiting for capacity in capacities):
            keys = sorted({key for one in waiting for key in one.counts}, key=str)
            for _ in {self.model.line_of(one) for one in waiting}:
                await site.let_through(keys)

    def _has_rates(self) -> bool:
        return any(limit.rate is not None for limit in self.model.limits.values())

    async def _fill_anew(self, number: int) -> None:
        """Have all that was set heeded, and every rate made anew: what a step of the clock fills is not told of."""
        for site in self.sites:
            await site.settle()
        for room, name, limit in [(*key, replace(limit)) for key, limit in self.model.limits.items()]:
            if limit.rate is not None:
                rate = (limit.rate.count, limit.rate.seconds, limit.rate.burst)
                plain = SetLimit(
                    LIMITS.index(name), limit.concurrency or MANY, limit.on_full, room=IN_ROOMS.index(room)
                )
                await self._one(plain, number)
                await self._one(replace(plain, concurrency=limit.concurrency, rate=rate), number)

    async def _together(self, operations: Sequence[Operation], number: int) -> None:
        """Ask all at once: there is an order in which the model gives the same answers, and ends as the server did."""
        self.knows_turns = False
        # Two claims at once take turns, task by task: no order of the two explains that.
        claims = [one for one in operations if isinstance(one, Claim)]
        single = [one for one in operations if one is claims[0] or not isinstance(one, Claim)] if claims else operations
        # Of two changes of limits in one batch the last alone is written.
        limits = [one for one in single if isinstance(one, SetLimit)]
        single = [one for one in single if one not in limits[1:]]
        asked = [(one, self._request(one)) for one in single]
        ready = [(one, request) for one, request in asked if request is not None]
        answers = await asyncio.gather(*(self._ask(one, request, number) for one, request in ready))
        await self._hear_of_instances(self.sites[number])
        tasks = await self._get(self.sites[number], f"/v1/tasks?limit={MOST}")
        found = {one["id"]: task_seen(one) for one in tasks["items"]}
        workers = await self._workers(self.sites[number])
        steps = await self._steps(self.sites[number], [one["id"] for one in tasks["items"] if one["steps"]])
        before, why = self.model, "nothing was asked"
        ways = product(permutations(zip(ready, answers, strict=True)), (False, True) if before.schedules else (False,))
        for order, is_batch in ways:
            self.model = deepcopy(before)
            try:
                for (operation, _), (status, body) in order:
                    self._compare(operation, status, body, then=before, is_in_batch=is_batch)
                self.model.go_on(self.world.now())
                check(self._shown(), found, "the tasks differ")
                came = sorted(self.model.tasks.keys() - before.tasks.keys(), key=lambda one: -self.model.tasks[one].seq)
                check(came, [one for one in found if one not in before.tasks], "the tasks came in another order")
                check(self.model.shown_workers(), workers, "the workers differ")
                self._check_steps(steps)
            except Differs as error:
                why = str(error)
            else:
                return
        if ready:
            raise Differs(f"no order of them explains the answers; by the last of all: {why}")
