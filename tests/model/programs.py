"""Random programs, which Hypothesis draws and shortens."""

from dataclasses import replace
from itertools import chain
from typing import Any

from hypothesis import strategies as st

from tests.model.operations import (
    JOBS,
    Beat,
    ByRun,
    Claim,
    Crash,
    DeleteSchedule,
    DrainWorker,
    Edit,
    EditMany,
    Faulty,
    Link,
    Look,
    Operation,
    Other,
    Pass,
    PatchStatus,
    PauseJob,
    PauseSchedule,
    Receive,
    Reclaim,
    Register,
    RemoveWorker,
    Report,
    Reports,
    Restart,
    RunSchedule,
    Send,
    Service,
    SetLimit,
    SetSchedule,
    Steer,
    SteerMany,
    Step,
    Submit,
    Together,
)
from tests.model.submissions import (
    KEYED,
    delete_limit,
    flows,
    follower,
    rarely,
    set_limit,
    some,
    submit,
    submit_each,
    submit_limited,
)

_number = st.integers(0, 11)
_worker = st.integers(0, 3)
_back = st.sampled_from([0, 0, 0, 0, 1])
_user = st.sampled_from([0, 0, 0, 0, 1])
_since = st.sampled_from([None, None, None, 0, 1])
_usage = st.sampled_from([None, None, 1.0, 4.0, 8.0])


def _weighed(weighed: dict[str, tuple[int, st.SearchStrategy[Any]]]) -> st.SearchStrategy[Any]:
    """Give what one of the strategies gives, each as often as it weighs: `one_of` would take them apart again."""
    names = [name for name, (weight, _) in weighed.items() for _ in range(weight)]
    return st.sampled_from(names).flatmap(lambda name: weighed[name][1])


_reasons = [
    "error", "timeout", "malformed-payload", "worker-shutdown", "intermittent-task", "returned", "claim-expired",
]  # fmt: skip


def _said(kind: str, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return some(**fields).map(lambda given: {"kind": kind, **given})


_result = st.sampled_from([None, 1, {"a": 1}])
_starts = st.booleans()
_occurrence = st.sampled_from([0, 0, 0, 1])
_step = st.fixed_dictionaries(
    {
        "kind": st.just("step"), "step": st.sampled_from(["a", "b"]), "occurrence": _occurrence,
        "function": st.sampled_from(["f", "f", "g"]), "result": st.sampled_from([1, {"a": 1}]), "seconds": st.just(0.5),
    }
)  # fmt: skip
_suspended = st.builds(
    lambda waits, occurrence, seconds, usage, starts: {
        "kind": "suspended", **waits, "occurrence": occurrence, "seconds": seconds, **usage, "starts": starts,
    },
    st.sampled_from([{"step": "sleep", "receives": False}, {"step": "m", "receives": True}]),
    _occurrence,
    st.sampled_from([0.0, 5.0, 30.0]),
    some(usage=_usage),
    _starts,
)  # fmt: skip
_ends = st.one_of(
    _said("completed", result=_result, usage=_usage, starts=_starts),
    st.builds(
        lambda said, error: {**said, "error": error},
        _said(
            "failed", reason=st.sampled_from(_reasons[:2]), retry_after=st.sampled_from([0.0, 7.0]), usage=_usage,
            starts=_starts, code_runs=st.booleans(),
        ),
        st.sampled_from(["boom", "again"]),
    ),
    st.builds(
        lambda said, reason: {**said, "reason": reason},
        _said("exception", error=st.just("odd"), usage=_usage, starts=_starts, code_runs=st.booleans()),
        st.sampled_from(_reasons),
    ),
    _suspended,
    _said("paused", checkpoint=st.sampled_from([[1], {"at": 1}]), usage=_usage, detail=st.just("so"), starts=_starts),
)  # fmt: skip
_reports = st.one_of(
    st.just({"kind": "started"}),
    st.just({"kind": "started"}),
    _ends,
    _ends,
    st.just({"kind": "stopped"}),
    _step,
    st.sampled_from([{"kind": "checkpoint", "checkpoint": 7}, {"kind": "progress", "share": 0.5}]),
)
_report = st.builds(Report, _number, _reports, _back, _user)
_wrong = st.sampled_from(
    [
        {"kind": "nonsense"},
        {"run_id": 2**40},
        {"usage": -1},
        {"task_id": "none"},
        {"kind": "logs"},
    ]
)
_flawed = st.builds(lambda said, wrong: {**said, "wrong": wrong}, _reports, _wrong)
_many = st.builds(
    Reports,
    _worker,
    st.lists(st.tuples(_number, _back, rarely(_flawed, _reports)), min_size=1, max_size=4).map(tuple),
)
_pair = st.tuples(_number, _back)
_beat = st.builds(
    Beat,
    _worker,
    st.none() | st.lists(st.tuples(_number, _back, _usage), max_size=3).map(tuple),
    st.lists(_pair, max_size=2).map(tuple),
    st.sampled_from([None, None, None, True, False]),
)
_plain = st.sampled_from(["cancel", "pause", "resume", "rerun"])
_steer = st.builds(Steer, _number, _plain, _since, st.just({}), _user) | st.builds(
    Steer,
    _number,
    st.just("resolve"),
    _since,
    st.sampled_from([{}, {"status": "failed", "error": "no"}, {"status": "cancelled"}, {"result": 3}]),
    _user,
)
_rerun = st.builds(
    Steer, _number, st.just("rerun"), _since, st.sampled_from([{}, {"from_step": "a"}, {"from_step": "m"}]), _user
)
_send = st.builds(Send, _number, st.just("m"), st.sampled_from(["1", "1", "2", "3"]), st.sampled_from([1, 1, 2]), _user)
_receive = st.builds(
    Receive, _number, st.fixed_dictionaries({"step": st.just("m"), "occurrence": _occurrence}), _back, _user
)
_steer_many = st.builds(
    SteerMany, st.lists(_number, min_size=1, max_size=4).map(tuple), _plain | st.just("resolve"), _user
)
_changes = st.sampled_from(
    [
        {"priority": 1}, {"target": "a"}, {"target": None}, {"target": "b", "priority": 0}, {"weight": 2},
        {"scheduled_at": 10}, {"scheduled_at": 0}, {"scheduled_at": -30}, {"payload": {"n": 2}}, {"checkpoint": None},
        {"checkpoint": [3]}, {"tags": {"x": "y"}}, {"unique_key": "k"}, {"unique_key": None}, {"pool": "gpu"},
        {"pool": None}, {"deadline": 15}, {"deadline": None}, {"delay": 5}, {"lease_seconds": 20.0}, {"max_retries": 3},
        {"on_dependency_failure": "cancel"}, {"on_dependency_failure": "run"}, {"on_dependency_failure": "hold"},
        {"limits": [{"name": "api"}]}, {"limits": [{"name": "api", "key": "b"}, {"name": "gpu"}]}, {"limits": None},
        {"limits": [{"name": "api", "weight": 2}]}, {"payload": {"n": 1}}, {"payload": {}},
        {"heartbeat_increment": None}, {"heartbeat_increment": 5.0}, {"timeout": 8.0}, {"budget": None},
    ]
)  # fmt: skip
_edit = st.builds(Edit, _number, _changes, _since, _user)
_edit_many = st.builds(
    EditMany, st.lists(st.tuples(_number, _changes, _since), min_size=1, max_size=4).map(tuple), _user
)
_register = st.builds(
    Register,
    some(concurrency=st.integers(1, 4), pool=st.just("gpu"), min_concurrency=st.integers(1, 2)),
    _user,
)
_link = st.builds(Link, _worker, st.integers(0, len(JOBS) - 1))
_claim = st.builds(Claim, _worker, st.integers(1, 4)) | st.builds(
    Claim, _worker, st.sampled_from([1, 2, 2]), st.sampled_from(["once", "twice"])
)
_pass = st.builds(Pass, st.sampled_from([0.5, 1.0, 2.0, 3.0, 6.0, 11.0, 25.0, 61.0]))
_service = st.builds(Service, st.sampled_from(["sweep", "promote", "tick", "follow", "follow"]))

_patch = st.builds(
    PatchStatus,
    _number,
    st.sampled_from(["running", "running", "completed", "failed", "paused", "cancelled", "claimed", "pending"]),
    st.just({}),
    st.sampled_from([None, None, None, 0, 1]),
    _user,
) | st.builds(
    PatchStatus,
    _number,
    st.just("failed"),
    st.builds(lambda reason, error: {"error": error} | reason, some(reason=st.sampled_from(_reasons)), st.just("old")),
    st.sampled_from([None, None, 0]),
    _user,
)
_timing = st.sampled_from(
    [{"interval": 10.0}, {"interval": 10.0}, {"interval": 25.0}, {"cron": "*/1 * * * *"}, {"cron": "*/2 * * * *"}]
)
_of_schedule = (st.sampled_from([0, 0, 1]), st.sampled_from([0, 0, 1]), _user)
_set_schedule = st.builds(
    lambda name, room, user, job, timing, rest, options: SetSchedule(
        name, room, user, job, {**timing, **rest, **({"options": options} if options else {})}
    ),
    *_of_schedule,
    st.sampled_from([*range(KEYED), *range(KEYED), KEYED]),
    _timing,
    some(missed=st.sampled_from(["late", "skip"]), paused=st.booleans()),
    st.sampled_from([{}, {}, {"deadline": 15.0}, {"unique_key": "k"}, {"target": "a"}, {"max_retries": 1}]),
)
_schedule = _weighed(
    {
        "set": (4, _set_schedule),
        "pause": (2, st.builds(PauseSchedule, *_of_schedule, st.booleans())),
        "run": (2, st.builds(RunSchedule, *_of_schedule)),
        "delete": (1, st.builds(DeleteSchedule, *_of_schedule)),
    }
)
_look = st.builds(Look, _number, _user)
_by_run = st.builds(
    ByRun,
    _number,
    _back,
    st.one_of(
        _report, _report, _send, _receive, _steer, _steer_many, _edit, _edit_many, _patch, _look, _beat, _claim, submit
    ),
) | st.builds(lambda task, back, one: ByRun(task, back, replace(one, task=task, back=back)), _number, _back, _report)

_REQUESTS: dict[str, tuple[int, st.SearchStrategy[Any]]] = {
    "submit": (6, submit),
    "claim": (8, _claim),
    "report": (8, _report),
    "reports": (5, _many),
    "beat": (3, _beat),
    "steer": (5, _steer),
    "rerun": (1, _rerun),
    "send": (3, _send),
    "receive": (1, _receive),
    "steer many": (2, _steer_many),
    "edit": (2, _edit),
    "edit many": (1, _edit_many),
    "follower": (3, st.builds(Submit, st.tuples(follower), st.integers(0, 1), _user)),
    "flow": (3, flows),
    "submit each": (2, submit_each),
    "patch": (2, _patch),
    "schedule": (3, _schedule),
    "by run": (4, _by_run),
    "look": (1, _look),
    "submit limited": (4, submit_limited),
    "set limit": (2, set_limit),
    "delete limit": (1, delete_limit),
}


_request = _weighed(_REQUESTS)
_operation = _weighed(
    {
        "request": (48, _request),
        "pass": (5, _pass),
        "service": (10, _service),
        "together": (3, st.builds(Together, st.lists(_request, min_size=2, max_size=3).map(tuple))),
        "faulty": (2, st.builds(Faulty, _request, st.booleans())),
        "crash": (2, st.builds(Crash, _request | _service, st.booleans(), st.sampled_from([0, 0, 1, 1, 2, 3]))),
        "restart": (1, st.just(Restart())),
        "step": (1, st.builds(Step, st.sampled_from([-100.0, -3.0, 3.0, 100.0]))),
        "reclaim": (1, st.builds(Reclaim, _number, _back)),
        "pause job": (1, st.builds(PauseJob, st.integers(0, 2), st.sampled_from([True, False, False]))),
        "register": (1, _register),
        "link": (2, _link),
        "drain": (1, st.builds(DrainWorker, _worker)),
        "remove": (1, st.builds(RemoveWorker, _worker)),
    }
)

_about_one = _weighed(
    {
        "report": (6, _report),
        "plain": (8, st.builds(Steer, _number, _plain)),
        "steer": (2, _steer),
        "claim": (5, _claim),
        "service": (2, _service),
        "edit": (1, _edit),
        "patch": (1, _patch),
        "rerun": (1, _rerun),
        "send": (1, _send),
        "receive": (1, _receive),
        "beat": (1, _beat),
        "pass": (1, _pass),
    }
)
_chapter = st.builds(
    lambda task, operations: [replace(one, task=task) if hasattr(one, "task") else one for one in operations],
    st.integers(0, 3),
    st.lists(_about_one, min_size=3, max_size=6),
)
"""Several operations on one task: of those drawn one by one, hardly two in a row name the same."""

_PROLOGUE: list[Operation] = [Register(), *(Link(0, job) for job in range(KEYED))]
_SECOND: list[Operation] = [Register({"concurrency": 3}), *(Link(1, job) for job in range(KEYED))]
_BEGINNING: list[Operation] = [Submit(({"job": 0}, {"job": 1, "target": "a"}, {"job": 2}), alone=False), Claim(0, 2)]
_KEPT = {"kind": "step", "step": "a", "occurrence": 0, "function": "f", "result": 1, "seconds": 0.5}
_WAITS = {"kind": "suspended", "step": "m", "occurrence": 0, "seconds": 30.0, "receives": True}
_BLOCKED: list[Operation] = [
    Submit(
        ({"job": 0}, {"job": 0, "needs": ("0",)}, {"job": 0, "needs": ("0",)}, {"job": 0, "needs": ("1", "2")}),
        alone=False,
    ),
    Claim(0),
]
"""A diamond, whose first task is claimed."""
_LIMITED: list[Operation] = [
    SetLimit(0, 2),
    SetLimit(1),
    Submit(({"job": 0, "limits": [{"name": "api"}]}, {"job": 1, "limits": [{"name": "gpu"}]}), alone=False),
]
"""There are limits."""
_RATED: list[Operation] = [
    SetLimit(0, None, rate=(1, 10.0, 2)),
    Link(0, KEYED),
    Submit(({"job": 0, "limits": [{"name": "api"}]}, {"job": KEYED, "payload": {"n": 1}}), alone=False),
]
"""There are rates."""
_ASLEEP: list[Operation] = [Submit(({"job": 0},)), Claim(0), Report(0, _KEPT), Report(0, _WAITS)]
"""A task keeps a step, and waits for a message."""
_UNFENCED: list[Operation] = [
    Submit(({"job": 0}, {"job": 0}), alone=False),
    Claim(0, 2),
    *(PatchStatus(n, "running") for n in range(2)),
]
"""Two tasks run, and who began them named no run."""

_BEGINNINGS: list[list[Operation]] = [
    *([], _BEGINNING, _BEGINNING, _ASLEEP, _UNFENCED),
    *(_BLOCKED, _BLOCKED, _LIMITED, _LIMITED, _RATED, _RATED),
]


def programs(size: int = 40, *, servers: int = 1) -> st.SearchStrategy[list[Operation]]:
    """Give programs of about so many operations at most, after one or two workers have come."""
    chunk = _weighed({"one": (4, _operation.map(lambda one: [one])), "chapter": (1, _chapter)})
    if servers > 1:
        here, there = chunk, chunk.map(lambda operations: [Other(one) for one in operations])
        chunk = st.booleans().flatmap(lambda other: there if other else here)
    body = st.lists(chunk, min_size=size // 3, max_size=size * 2 // 3)
    return st.builds(
        lambda second, begun, rest: [*_PROLOGUE, *(_SECOND if second else []), *begun, *chain.from_iterable(rest)],
        st.booleans(),
        st.sampled_from(_BEGINNINGS),
        body,
    )
