"""What the search has found: each program once parted the server from the model. A minimal one stays as a test."""

import asyncio
from pathlib import Path

import pytest

from tests.conftest import ReusedDatabase
from tests.model.operations import (
    Beat,
    ByRun,
    Claim,
    Link,
    Operation,
    Pass,
    Receive,
    Register,
    Report,
    Reports,
    Send,
    Service,
    Step,
    Submit,
    Together,
)
from tests.model.running import perform, replay
from tests.model.worlds import TwoServers

SERVED: list[Operation] = [Register(), *(Link(0, job) for job in range(3))]
"""A worker has come, and serves every job."""

CLAIMED: list[Operation] = [Submit(({"job": 0},)), Claim(0)]

FAILED = {"kind": "failed", "error": "boom"}

FOUND: dict[str, list[Operation]] = {
    "the place of a task that was due before it came is told as it is": [
        Submit(({"job": 0},)),
        Submit(({"job": 0, "scheduled_at": -60},)),
        Submit(({"job": 0}, {"job": 0, "scheduled_at": -90}), alone=False),
    ],
    "a task that is named twice in a request has one place in its answer": [
        Submit(({"job": 0, "unique_key": "k", "priority": -1}, {"job": 0}, {"job": 0, "unique_key": "k"}), alone=False),
    ],
    "an end that is refused for its reason has not started the run either": [
        *CLAIMED,
        Reports(0, ((0, 0, {"kind": "exception", "reason": "claim-expired", "starts": True}),)),
        Reports(0, ((0, 0, {"kind": "failed", "reason": "claim-expired", "error": "boom", "starts": True}),)),
    ],
    "a run that started is not handed back, and has not started by the report that says both": [
        *CLAIMED,
        Reports(0, ((0, 0, {"kind": "exception", "reason": "returned", "starts": True}),)),
    ],
    "a failure without a reason is the same one when it is told again by the other route": [
        *CLAIMED,
        Report(0, FAILED),
        Reports(0, ((0, 0, FAILED),)),
        *CLAIMED,
        Reports(0, ((1, 0, FAILED),)),
        Report(4, FAILED),
    ],
    "of a step and a receipt that are told at once either may come first": [
        *CLAIMED,
        Send(0, "m", "1", 1),
        Together(
            (
                Reports(0, ((0, 0, {"kind": "step", "step": "b", "function": "f", "result": 1}),)),
                Receive(0, {"step": "m", "occurrence": 0}),
            )
        ),
        Together(
            (
                Receive(0, {"step": "m", "occurrence": 1}),
                Reports(0, ((0, 0, {"kind": "step", "step": "c", "function": "f", "result": 1}),)),
            )
        ),
    ],
    "a run's credential keeps no other worker alive than its own": [
        *CLAIMED,
        Register(user=1),
        Pass(11.0),
        ByRun(1, 0, Beat(0, ((1, 0, None),))),
        ByRun(1, 0, Beat(1, ((1, 0, None),))),
    ],
}


@pytest.mark.parametrize("name", FOUND)
def test_what_was_found_once_is_mended(name: str) -> None:
    replay([*SERVED, *FOUND[name]])


@pytest.mark.postgres
@pytest.mark.parametrize("seconds", [3.0, -3.0, 100.0])
def test_what_began_before_the_clock_was_read_anew_is_done_by_what_it_shows(
    seconds: float, reused_postgres: ReusedDatabase, tmp_path: Path
) -> None:
    """Of two batches the first found that the clock was set, and the second went on by the time of before."""
    started = Report(0, {"kind": "started"})
    program = [*SERVED, *CLAIMED, Service("sweep"), Step(seconds), Together((started, ByRun(0, 0, started)))]
    reused_postgres.drop()
    parted = asyncio.run(perform(TwoServers(reused_postgres.take(), tmp_path), program))
    reused_postgres.give_back()
    # Its sessions have a clock that stands still: nobody else's.
    reused_postgres.drop()

    assert parted is None, parted
