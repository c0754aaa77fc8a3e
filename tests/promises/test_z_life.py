"""The states of a task: which verb leads from which to which, who may say it, and the times that are kept (Z7, Z8)."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from tests.promises.over_socket import SocketUser, asked
from tests.promises.problems import refused, refused_as_any, told
from tests.promises.rig import Rig, over_http, worker_of
from tests.promises.words import JOB, Task, User, Worker, run_of
from treadle.wire.status import OPEN, Status
from treadle.wire.transitions import TRANSITIONS, Verb
from treadle_server.engine.commands import ReleaseHolds

STATUSES = ("scheduled", "blocked", "pending", "claimed", "running", "paused", "completed", "failed", "cancelled")

TABLE: Mapping[str, Mapping[str, str]] = {
    "start": {"claimed": "running", "running": "running"},
    "complete": {"running": "completed"},
    "fail": {"claimed": "failed", "running": "failed"},
    "exception": {"claimed": "failed", "running": "failed"},
    "pause report": {"claimed": "paused", "running": "paused"},
    "hand back": {"claimed": "pending"},
    "checkpoint": {"claimed": "claimed", "running": "running"},
    "progress": {"claimed": "claimed", "running": "running"},
    "log": {"claimed": "claimed", "running": "running"},
    "cancel": dict.fromkeys(("scheduled", "blocked", "pending", "claimed", "running", "paused"), "cancelled"),
    "pause": {
        "scheduled": "paused",
        "blocked": "paused",
        "pending": "paused",
        "claimed": "claimed",
        "running": "running",
    },
    "resume": {"paused": "pending", "failed": "pending"},
    "rerun": {"completed": "pending", "failed": "pending", "cancelled": "pending"},
    "resolve": {"paused": "completed", "failed": "completed"},
    "resolve failed": {"paused": "failed", "failed": "failed"},
    "resolve cancelled": {"paused": "cancelled", "failed": "cancelled"},
    "edit": {"scheduled": "scheduled", "blocked": "blocked", "pending": "pending"},
}
"""DESIGN.md section 3 by hand, for a task without budgets: what each word makes of each status; all else is a 409.

Starting a running run again is the same report twice, and pausing what runs only asks for it.
"""

PATCHES: Mapping[str, Mapping[str, str]] = {
    "running": {"claimed": "running"},
    "completed": {"running": "completed"},
    "failed": {"claimed": "failed", "running": "failed"},
    "paused": {"claimed": "paused", "running": "paused"},
    "cancelled": dict.fromkeys(("scheduled", "blocked", "pending", "claimed", "running", "paused"), "cancelled"),
    "scheduled": {},
    "pending": {},
    "claimed": {},
}
"""The same for a plain update of the status, as older clients send it."""


async def brought_to(status: str, user: User, worker: Worker, job: str) -> Task:
    """Return a task in that status; it names its last run, or the first when it had none."""
    options: dict[str, Any] = {"delay": 3600 if status == "scheduled" else 0}
    if status == "blocked":
        options["depends_on"] = {"first": (await user.submit(job, delay=3600))["id"]}
    task = {"run_id": 0, **(await user.submit(job, **options))}
    task["run_id"] = 0
    if status in {"scheduled", "blocked", "pending"}:
        return task
    run = await worker.take()
    if status != "claimed":
        await worker.start(run)
    if status == "paused":
        await user.pause(run)
        await worker.pause_report(run, checkpoint=[1])
    elif status == "completed":
        await worker.complete(run, "first")
    elif status == "failed":
        await worker.fail(run, "first")
    elif status == "cancelled":
        await user.cancel(run)
    assert (await user.get(run))["status"] == status
    return run


def spoken(word: str, user: User, worker: Worker, task: Task) -> Awaitable[Any]:
    """Say the word."""
    words: dict[str, Callable[[], Awaitable[Any]]] = {
        "start": lambda: worker.start(task),
        "complete": lambda: worker.complete(task, "another"),
        "fail": lambda: worker.fail(task, "another"),
        "exception": lambda: worker.exception(task, "internal-error"),
        "pause report": lambda: worker.pause_report(task, checkpoint=[2]),
        "hand back": lambda: worker.hand_back(task),
        "checkpoint": lambda: worker.checkpoint(task, [3]),
        "progress": lambda: worker.progress(task, 0.5),
        "log": lambda: worker.log(task, "line"),
        "cancel": lambda: user.cancel(task),
        "pause": lambda: user.pause(task),
        "resume": lambda: user.resume(task),
        "rerun": lambda: user.rerun(task),
        "resolve": lambda: user.resolve(task),
        "resolve failed": lambda: user.resolve(task, status="failed", error="by hand"),
        "resolve cancelled": lambda: user.resolve(task, status="cancelled"),
        "edit": lambda: user.edit(task, tags={"k": "v"}),
    }
    return words[word]()


async def picture(user: User, task: Task) -> tuple[Any, ...]:
    """Return all that there is to see of a task."""
    return await user.get(task), await user.runs(task), await user.logs(task)


async def test_z7_each_status_allows_the_words_of_the_table(rig: Rig):
    for status in STATUSES:
        for word in [word for word, cells in TABLE.items() if status in cells]:
            name = f"{status}-{word}".replace(" ", "-")
            job = (await rig.root.register_job(name))["full_name"]
            worker = await rig.root.register_worker(job)
            task = await brought_to(status, rig.root, worker, job)

            await spoken(word, rig.root, worker, task)

            assert (await rig.root.get(task))["status"] == TABLE[word][status], f"{word} from {status}"


@pytest.mark.parametrize("status", STATUSES)
async def test_z7_every_other_word_is_refused_and_changes_nothing(rig: Rig, status: str):
    worker = await worker_of(rig)
    task = await brought_to(status, rig.root, worker, JOB)
    before = await picture(rig.root, task)
    rig.advance(1)

    for word in [word for word, cells in TABLE.items() if status not in cells]:
        kinds = {"stale-run", "invalid-task-transition"}
        with refused_as_any(kinds, f"{word} from {status}"):
            await spoken(word, rig.root, worker, task)
        assert await picture(rig.root, task) == before, f"{word} from {status}"


@over_http
@pytest.mark.parametrize("status", STATUSES)
async def test_z7_a_plain_update_of_the_status_follows_the_table_too(rig: Rig, status: str):
    worker = await worker_of(rig)
    task = await brought_to(status, rig.root, worker, JOB)
    before = await picture(rig.root, task)
    for to in [to for to, cells in PATCHES.items() if status not in cells]:
        with refused_as_any({"stale-run", "invalid-task-transition"}, f"{to} from {status}"):
            await rig.root.status(task, to)
        assert await picture(rig.root, task) == before, f"{to} from {status}"

    for to in [to for to, cells in PATCHES.items() if status in cells]:
        job = (await rig.root.register_job(f"to-{to}"))["full_name"]
        worker = await rig.root.register_worker(job)
        changed = await rig.root.status(await brought_to(status, rig.root, worker, job), to)
        assert changed["status"] == to


def test_z7_the_table_by_hand_and_the_one_in_the_code_agree():
    """The verbs that only the server says are here as well."""
    by_hand: dict[Verb, tuple[set[str], set[str]]] = {
        Verb.PROMOTE: ({"scheduled"}, {"pending"}),
        Verb.UNBLOCK: ({"blocked"}, {"pending", "scheduled"}),
        Verb.DEFER: ({"pending"}, {"scheduled"}),
        Verb.CLAIM: ({"pending"}, {"claimed"}),
        Verb.START: (set(TABLE["start"]) - {"running"}, {"running"}),
        Verb.COMPLETE: (set(TABLE["complete"]), {"completed"}),
        Verb.FAIL: (set(TABLE["fail"]), {"failed"}),
        Verb.RETRY: (set(TABLE["fail"]), {"scheduled", "pending"}),
        Verb.REQUEUE: (set(TABLE["exception"]), {"scheduled", "pending"}),
        Verb.SUSPEND: (set(TABLE["fail"]), {"scheduled", "pending"}),
        Verb.INTERRUPT: (set(TABLE["pause report"]), {"paused"}),
        Verb.PAUSE: (set(TABLE["pause"]) - {"claimed", "running"}, {"paused"}),
        Verb.CANCEL: (set(TABLE["cancel"]), {"cancelled"}),
        Verb.EXPIRE: (set(OPEN), {"failed"}),
        Verb.RESUME: (set(TABLE["resume"]), {"pending", "scheduled", "blocked"}),
        Verb.RESOLVE: (set(TABLE["resolve"]), {"completed", "failed", "cancelled"}),
        Verb.RERUN: (set(TABLE["rerun"]), {"pending", "blocked"}),
    }

    assert {verb: (set(one.sources), set(one.targets)) for verb, one in TRANSITIONS.items()} == by_hand
    assert {str(status) for status in Status} == set(STATUSES)


async def test_z7_an_unknown_status_or_verb_is_no_valid_request(rig: Rig):
    await rig.root.register_job()
    task = await rig.root.submit()
    before = await picture(rig.root, task)

    for status in ("sleeping", "", "RUNNING", None, 7):
        with refused("validation-error", 422):
            await rig.root.status(task, status)  # type: ignore[arg-type]
    with refused("validation-error", 422):
        await rig.root.resolve(task, status="running")
    with refused("validation-error", 422):
        await rig.root.actions("explode", ids=[task["id"]])
    with refused("validation-error", 422):
        told(await rig.root.http.get("/v1/tasks", params={"status": "sleeping"}))
    if isinstance(rig.root, SocketUser):
        with refused("validation-error", 422):
            await asked(rig.root.socket, "action", id=task["id"], action="explode")

    assert await picture(rig.root, task) == before


async def test_z7_a_resumed_task_that_is_not_due_yet_is_scheduled_again(rig: Rig):
    await rig.root.register_job()
    task = await rig.root.submit(delay=60)
    await rig.root.pause(task)

    assert (await rig.root.resume(task))["status"] == "scheduled"

    await rig.root.pause(task)
    rig.advance(61)
    assert (await rig.root.resume(task))["status"] == "pending"


async def test_z7_an_edit_of_its_time_moves_a_task_between_scheduled_and_pending(rig: Rig):
    await rig.root.register_job()
    task = await rig.root.submit()
    later = rig.clock.at.replace(year=2027).isoformat()

    assert (await rig.root.edit(task, scheduled_at=later))["status"] == "scheduled"
    assert (await rig.root.edit(task, scheduled_at=rig.clock.at.isoformat()))["status"] == "pending"


async def test_z7_the_submitter_and_a_superuser_steer_a_task_and_nobody_else_does(rig: Rig):
    """Not even who owns the worker that runs it."""
    alice, bob, carol = [await rig.user(name) for name in ("alice", "bob", "carol")]
    await alice.register_job()
    worker = await bob.register_worker(JOB)
    for status in ("pending", "running", "paused", "failed"):
        for word in [w for w, cells in TABLE.items() if status in cells and w in STEERING]:
            for steerer, may in ((carol, False), (bob, False), (alice, True), (rig.root, True)):
                task = await brought_to(status, alice, worker, JOB)
                before = await picture(alice, task)
                if may:
                    await spoken(word, steerer, worker, task)
                else:
                    with refused("forbidden", 403):
                        await spoken(word, steerer, worker, task)
                    assert await picture(alice, task) == before
                await clear(rig, task)


STEERING = frozenset({"cancel", "pause", "resume", "resolve", "edit"})


async def clear(rig: Rig, task: Task) -> None:
    """Leave nothing for the next claim, and no code that seems to run."""
    if (await rig.root.get(task))["status"] in {"scheduled", "pending", "claimed", "running", "paused"}:
        await rig.root.cancel(task)
    rig.advance(61)
    await rig.engine.run(ReleaseHolds())


@over_http
async def test_z7_the_workers_owner_and_a_superuser_report_and_nobody_else_does(rig: Rig):
    alice, bob, carol = [await rig.user(name) for name in ("alice", "bob", "carol")]
    await alice.register_job()
    worker = await bob.register_worker(JOB)
    task = await alice.submit()
    run = await worker.begin()
    before = await picture(alice, task)

    for stranger in (alice, carol):
        as_stranger = type(worker)(stranger, worker.id)
        for word in ("start", "complete", "fail", "exception", "pause report", "checkpoint", "progress", "log"):
            with refused("forbidden", 403):
                await spoken(word, stranger, as_stranger, run)
        for status in ("completed", "failed", "paused"):
            with refused("forbidden", 403):
                await stranger.status(run, status, run_id=run["run_id"])

    assert await picture(alice, task) == before
    assert (await type(worker)(rig.root, worker.id).complete(run))["status"] == "completed"


async def test_z7_a_report_about_another_workers_run_is_refused(rig: Rig):
    """By its number on the socket, by its owner over HTTP."""
    alice, bob = await rig.user("alice"), await rig.user("bob")
    await alice.register_job()
    worker = await bob.register_worker(JOB)
    await alice.submit()
    run = await worker.begin()
    mine = await alice.register_worker(JOB)

    with refused_as_any({"forbidden", "stale-run"}, "another's run"):
        await mine.complete(run)
    assert (await alice.get(run))["status"] == "running"


async def test_z7_bulk_actions_answer_for_each_task(rig: Rig):
    alice = await rig.user("alice")
    await alice.register_job()
    worker = await alice.register_worker(JOB)
    done = await brought_to("completed", alice, worker, JOB)
    mine, others = await alice.submit(), await rig.root.submit()
    nobody = "00000000-0000-7000-8000-000000000000"

    result = await alice.actions("cancel", ids=[done["id"], mine["id"], others["id"], nobody])

    assert (result["matched"], result["changed"], list(result["versions"])) == (4, 1, [mine["id"]])
    assert {problem["id"]: problem["type"].rsplit("/", 1)[1] for problem in result["problems"]} == {
        done["id"]: "invalid-task-transition",
        others["id"]: "forbidden",
        nobody: "task-not-found",
    }
    assert (await alice.get(others))["status"] == "pending"


async def test_z8_each_time_is_kept_when_its_state_is_reached(rig: Rig):
    worker = await worker_of(rig)
    times = []

    async def seen() -> Task:
        times.append(rig.clock.at.isoformat().replace("+00:00", "Z"))
        rig.advance(1)
        return times_of(await rig.root.get(task))

    task = await rig.root.submit()
    assert await seen() == {"created_at": times[0]}
    run = await worker.take()
    assert await seen() == {"created_at": times[0], "claimed_at": times[1]}
    await worker.start(run)
    assert await seen() == {"created_at": times[0], "claimed_at": times[1], "started_at": times[2]}
    await worker.complete(run)
    assert await seen() == {
        "created_at": times[0],
        "claimed_at": times[1],
        "started_at": times[2],
        "completed_at": times[3],
    }
    [kept] = await rig.root.runs(task)
    assert [kept[name] for name in ("claimed_at", "started_at", "ended_at")] == times[1:4]


def times_of(task: Task) -> dict[str, str]:
    names = ("created_at", "claimed_at", "started_at", "completed_at")
    return {name: task[name] for name in names if task[name] is not None}


@pytest.mark.parametrize("status", ["completed", "failed", "cancelled"])
async def test_z8_every_terminal_state_has_its_time_and_leaving_it_takes_the_time_away(rig: Rig, status: str):
    worker = await worker_of(rig)
    task = await brought_to(status, rig.root, worker, JOB)
    at = rig.clock.at.isoformat().replace("+00:00", "Z")
    assert (await rig.root.get(task))["completed_at"] == at
    rig.advance(5)

    again = await rig.root.rerun(task)

    assert (again["completed_at"], again["created_at"]) == (None, at)
    if status != "cancelled":
        assert [run["ended_at"] for run in await rig.root.runs(task)] == [at]


async def test_z8_a_task_that_never_ran_has_no_times_of_a_run(rig: Rig):
    await rig.root.register_job()
    task = await rig.root.submit()

    cancelled = await rig.root.cancel(task)

    assert set(times_of(cancelled)) == {"created_at", "completed_at"}
    assert await rig.root.runs(task) == []


async def test_z8_the_next_run_has_times_of_its_own_and_the_last_one_keeps_its(rig: Rig):
    worker = await worker_of(rig)
    task = await rig.root.submit(max_retries=1, retry_base=0)
    first = await worker.begin()
    rig.advance(1)
    await worker.fail(first)
    [ended] = await rig.root.runs(task)
    rig.advance(1)

    second = await worker.take()

    assert (second["run_id"], second["started_at"]) == (1, None)
    assert second["claimed_at"] > ended["ended_at"] > ended["claimed_at"]
    assert (await rig.root.runs(task))[0] == ended
    assert run_of(second) == {"task_id": task["id"], "run_id": 1}
