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
    Step,
    Together,
    task_seen,
)

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
        match operation:
            case Pass(seconds):
                await self.world.advance(seconds)
                return
            case Step(seconds):
                await self.world.jump(seconds)
                self.model.see_clock(self.world.now(), self.world.passed())
                for site in self.sites:
                    site.see_clock(self.world.now())
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

    async def _together(self, operations: Sequence[Operation], number: int) -> None:
        """Ask all at once: there is an order in which the model gives the same answers, and ends as the server did."""
        self.knows_turns = False
        # Two claims at once take turns, task by task: no order of the two explains that.
        claims = [one for one in operations if isinstance(one, Claim)]
        single = [one for one in operations if one is claims[0] or not isinstance(one, Claim)] if claims else operations
        asked = [(one, self._request(one)) for one in single]
        ready = [(one, request) for one, request in asked if request is not None]
        answers = await asyncio.gather(*(self._ask(one, request, number) for one, request in ready))
        await self._hear_of_instances(self.sites[number])
        tasks = await self._get(self.sites[number], f"/v1/tasks?limit={MOST}")
        found = {one["id"]: task_seen(one) for one in tasks["items"]}
        workers = await self._workers(self.sites[number])
        before, why = self.model, "nothing was asked"
        ways = product(permutations(zip(ready, answers, strict=True)), (False, True) if before.schedules else (False,))
        for order, is_batch in ways:
            self.model = deepcopy(before)
            try:
                for (operation, _), (status, body) in order:
                    self._compare(operation, status, body, then=before, is_in_batch=is_batch)
                self.model.go_on(self.world.now())
                check(self._shown(), found, "the tasks differ")
                check(self.model.shown_workers(), workers, "the workers differ")
            except Differs as error:
                why = str(error)
            else:
                return
        if ready:
            raise Differs(f"no order of them explains the answers; by the last of all: {why}")
