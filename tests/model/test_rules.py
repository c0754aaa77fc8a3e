"""Rules of limits, steps and flows, each with a short program in lock-step: what random ones find only now and then."""

import re

import pytest

from tests.model.operations import (
    Beat,
    Claim,
    DeleteLimit,
    DrainWorker,
    Edit,
    Link,
    Operation,
    Pass,
    Receive,
    Register,
    RemoveWorker,
    Report,
    Restart,
    RunSchedule,
    Send,
    Service,
    SetLimit,
    SetSchedule,
    Steer,
    Step,
    Submit,
)
from tests.model.running import replay

SERVED: list[Operation] = [Register(), *(Link(0, job) for job in (0, 1, 3))]
API = {"job": 0, "limits": [{"name": "api"}]}
BOTH = {"job": 0, "limits": [{"name": "api"}, {"name": "gpu"}]}
ONE = Submit((API,))
STARTED = {"kind": "started"}
DONE = {"kind": "completed"}
FAILED = {"kind": "failed", "error": "boom"}


def put(*tasks: dict[str, object]) -> Submit:
    """Return a request that puts these in."""
    return Submit(tasks, alone=False)


def step(name: str, result: int, function: str = "f") -> dict[str, object]:
    """Return the report of a step."""
    return {"kind": "step", "step": name, "occurrence": 0, "function": function, "result": result, "seconds": 0.5}


def waits(name: str, seconds: float, *, receives: bool) -> dict[str, object]:
    """Return the report of a run that sleeps, or waits for a message."""
    told = {"step": name, "occurrence": 0, "seconds": seconds, "receives": receives}
    return {"kind": "suspended", **told}


RULES: dict[str, list[Operation]] = {
    "a claim takes a token, and what is handed back gives it back, never above the burst": [
        SetLimit(0, None, rate=(1, 10.0, 3)),
        put(*[API] * 12),
        Claim(0, 2),
        Report(0, {"kind": "exception", "reason": "returned", "error": "odd"}),
        Claim(0, 9),
        Pass(5.0),
        Claim(0, 9),
        Pass(5.0),
        Claim(0, 9),
        Pass(61.0),
        Claim(0, 2),
        Report(2, {"kind": "exception", "reason": "returned", "error": "odd"}),
        Claim(0, 9),
    ],
    "a rate that is changed fills from then on": [
        SetLimit(0, None, rate=(1, 10.0, 3)),
        put(*[API] * 9),
        Claim(0, 9),
        Pass(6.0),
        SetLimit(0, None, rate=(2, 2.0, 3)),
        Claim(0, 3),
        Pass(0.5),
        Claim(0, 2),
        SetLimit(0, 9, rate=(2, 2.0, 1)),
        Pass(2.0),
        Claim(0, 3),
    ],
    "a limit that is lowered, raised, given a rate or freed of it leaves what runs as it is": [
        SetLimit(0, 3),
        put(*[API] * 6),
        Claim(0, 2),
        SetLimit(0, 1),
        Claim(0, 2),
        Report(0, STARTED),
        Report(0, DONE),
        Claim(0, 2),
        SetLimit(0, 3),
        Claim(0, 1),
        SetLimit(0, None, rate=(1, 2.0, 1)),
        Claim(0, 1),
        DeleteLimit(0),
        SetLimit(0, 3),
        Claim(0, 4),
    ],
    "keys are where the pointer leads, and an edit of the payload takes another one": [
        put(*({"job": 3, "payload": {"m": 0, "n": n}} for n in (1, 1.0, "1", True, None, 2))),
        Submit(({"job": 3, "payload": {"n": {"of": 1}}},)),
        Claim(0, 8),
        Edit(2, {"payload": {"n": 2}}),
        Claim(0, 8),
        Edit(2, {"payload": {}}),
        Pass(6.0),
        Claim(0, 8),
    ],
    "a task's limits are its room's and its job's those of the job's room, and an edit takes others": [
        SetLimit(0, 1),
        SetLimit(1, 1),
        put(*[API] * 4, {"job": 3, "payload": {"n": 1}, "limits": [{"name": "api"}]}),
        Submit(({"job": 3, "limits": [{"name": "per"}]},)),
        Claim(0, 8),
        Edit(1, {"limits": None}),
        Claim(0, 1),
        Edit(2, {"limits": BOTH["limits"]}),
        Edit(3, {"limits": [{"name": "gpu"}]}),
        Edit(4, {"limits": [{"name": "api", "weight": 2}]}),
        Claim(0, 4),
        Report(0, STARTED),
        Report(0, DONE),
        Claim(0, 4),
    ],
    "what does not fit into one limit leaves the room in another to those behind": [
        SetLimit(0, None, rate=(1, 2.0, 1)),
        SetLimit(1, 2),
        put(API, BOTH, {**API, "limits": [{"name": "api", "key": "b"}]}, API, {"job": 1, **BOTH}),
        Claim(0, 9),
        Pass(2.0),
        Claim(0, 9),
        Pass(2.0),
        Claim(0, 9),
    ],
    "a full limit leaves the room in another to those behind": [
        SetLimit(0, None, rate=(1, 2.0, 1)),
        SetLimit(1, 1),
        put({"job": 0, "limits": [{"name": "gpu"}]}, API, BOTH, API),
        Claim(0, 9),
        Pass(2.0),
        Claim(0, 9),
        Report(0, DONE),
        Pass(2.0),
        Claim(0, 9),
    ],
    "a limit that rejects counts who waits, and a schedule's tick is refused as a submit is": [
        SetLimit(0, None, "reject", rate=(1, 10.0, 2)),
        *[ONE] * 3,
        Claim(0, 1),
        ONE,
        Pass(11.0),
        put(API, API),
        ONE,
        SetLimit(2, 1, "reject", 2, 0, (1, 10.0, 1)),
        SetSchedule(0, 0, 0, 3, {"interval": 10.0}),
        Submit(({"job": 3},)),
        Pass(11.0),
        Service("tick"),
        RunSchedule(0, 0, 0),
        Claim(0, 9),
    ],
    "the newest stays of those that wait for a token, and the oldest run makes room": [
        SetLimit(0, None, "newest", rate=(1, 2.0, 2)),
        *[ONE] * 3,
        Claim(0, 1),
        *[ONE] * 2,
        Pass(3.0),
        Claim(0, 4),
        SetLimit(0, 2, "replace", rate=(1, 2.0, 9)),
        Pass(25.0),
        *[ONE, Claim(0, 1), Pass(1.0)] * 4,
    ],
    "a limit is deleted when neither tasks nor jobs name it and no code counts against it": [
        DeleteLimit(2, 2),
        Submit(({"job": 3, "payload": {"n": 1}},)),
        Claim(0),
        Steer(0, "cancel"),
        RemoveWorker(0),
        DeleteLimit(2, 2),
        Register(),
        Pass(61.0),
        Service("sweep"),
        DeleteLimit(2, 2),
        Link(0, 3),
    ],
    "who is asked to drain is given nothing, however it beats, until it says that it takes more": [
        Submit(({"job": 0},)),
        DrainWorker(0),
        Claim(0),
        Beat(0),
        Claim(0),
        DrainWorker(0),
        Beat(0, draining=False),
        Claim(0),
        DrainWorker(0),
        Pass(61.0),
        Service("sweep"),
        DrainWorker(0),
    ],
    "a clock that is set fills nothing, and a server that begins anew forgets nothing": [
        SetLimit(0, None, rate=(1, 10.0, 3)),
        put(*[API] * 9),
        Claim(0, 9),
        Step(100.0),
        Claim(0, 2),
        Restart(),
        Pass(11.0),
        Claim(0, 5),
    ],
    "a rerun from a step keeps the steps before it, and what the others had received waits again": [
        Submit(({"job": 0},)),
        Claim(0),
        Report(0, step("a", 1)),
        Report(0, step("a", 1, "g")),
        Report(0, step("b", 2)),
        Send(0, "m", "1", 1),
        Receive(0, {"step": "m", "occurrence": 0}),
        Report(0, STARTED),
        Report(0, DONE),
        Send(0, "m", "1", 2),
        Steer(0, "rerun", None, {"from_step": "b"}),
        Claim(0),
        Report(0, step("a", 1)),
        Report(0, step("b", 3)),
        Receive(0, {"step": "m", "occurrence": 0}),
        Send(0, "m", "1", 2),
        Report(0, FAILED),
        Steer(0, "resume"),
        Claim(0),
        Report(0, step("b", 2)),
    ],
    "a sleep that is paused keeps its time, and a message wakes who waits for it": [
        put({"job": 0}, {"job": 0}),
        Claim(0, 2),
        Report(0, waits("sleep", 30.0, receives=False)),
        Steer(0, "pause"),
        Steer(0, "resume"),
        Pass(25.0),
        Service("promote"),
        Pass(6.0),
        Service("promote"),
        Report(1, waits("m", 30.0, receives=True)),
        Send(1, "m", "1", 1),
        Claim(0, 2),
    ],
    "an edit of a task's time moves the end of its sleep or wait": [
        put({"job": 0}, {"job": 0}),
        Claim(0, 2),
        Report(0, waits("sleep", 30.0, receives=False)),
        Report(1, waits("m", 30.0, receives=True)),
        Edit(0, {"delay": 60}),
        Edit(1, {"scheduled_at": 0}),
        Claim(0, 2),
    ],
    "each policy takes a failure as it says, and a rerun waits anew": [
        put(
            {"job": 0},
            {"job": 0, "needs": ("0",)},
            {"job": 0, "needs": ("0",), "on_dependency_failure": "hold"},
            {"job": 0, "needs": ("0",), "on_dependency_failure": "run"},
            {"job": 0, "needs": ("1", "2")},
        ),
        Claim(0),
        Report(0, FAILED),
        Service("follow"),
        Claim(0, 9),
        Steer(0, "rerun"),
        Steer(1, "rerun"),
        Service("follow"),
        Claim(0),
        Report(0, STARTED),
        Report(0, DONE),
        Service("follow"),
        Claim(0, 1),
        Report(16, STARTED),
        Report(16, DONE),
        Steer(0, "rerun"),
        Steer(1, "rerun"),
        Service("follow"),
        Claim(0, 9),
    ],
    "a rerun waits for the code of a run that was cancelled, and its answer says so": [
        put({"job": 0}),
        Claim(0),
        Report(0, STARTED),
        Steer(0, "cancel"),
        Steer(0, "rerun"),
        Claim(0),
        Beat(0),
        Claim(0),
    ],
    "a job that nobody serves goes with the last of its tasks, if what that waited for has ended": [
        Link(0, 2),
        put({"job": 0}),
        put({"job": 2, "needs": (0,)}),
        Steer(0, "cancel"),
        RemoveWorker(0),
        Service("follow"),
    ],
}


@pytest.mark.parametrize("name", RULES, ids=lambda name: re.sub("[^a-z]+", "-", name))
def test_a_rule_holds_in_lock_step(name: str) -> None:
    replay([*SERVED, *RULES[name]])
