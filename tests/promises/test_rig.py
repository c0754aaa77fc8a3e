"""The rig itself: each word does what it says, over both transports."""

from tests.promises.problems import refused
from tests.promises.rig import Rig


async def test_a_task_walks_from_submit_to_completion(rig: Rig):
    await rig.root.register_job()
    worker = await rig.root.register_worker("lab:tasks:add")
    first, second = await rig.root.submit_many(
        {"job": "lab:tasks:add", "payload": {"n": 1}}, {"job": "lab:tasks:add", "payload": {"n": 2}}
    )
    assert await rig.root.positions() == {first["id"]: 1, second["id"]: 2}

    run = await worker.take()
    await worker.start(run)
    await worker.progress(run, 0.5, "half")
    await worker.log(run, "one", "two")
    await worker.checkpoint(run, {"at": 1})
    done = await worker.complete(run, {"sum": 3})

    assert (run["id"], run["run_id"], done["status"], done["result"]) == (first["id"], 0, "completed", {"sum": 3})
    assert await rig.root.logs(run) == ["one", "two"]
    assert [one["status"] for one in await rig.root.runs(run)] == ["completed"]
    assert [task["id"] for task in await worker.claim()] == [second["id"]]


async def test_a_claim_finds_nothing_or_waits_for_what_comes(rig: Rig):
    await rig.root.register_job()
    worker = await rig.root.register_worker("lab:tasks:add")
    assert await worker.claim() == []

    task = await rig.root.submit()

    assert (await worker.take(wait=5))["id"] == task["id"]
    assert (await rig.root.get(task))["status"] == "claimed"


async def test_an_idle_worker_takes_nothing_until_it_asks(rig: Rig):
    await rig.root.register_job()
    worker = await rig.root.register_worker("lab:tasks:add")

    task = await rig.root.submit()

    assert (await rig.root.get(task))["status"] == "pending"
    run = await worker.take()
    assert (await worker.hand_back(run))["status"] == "pending"
    assert (await worker.take())["run_id"] == 1


async def test_time_is_turned_by_hand(rig: Rig):
    await rig.root.register_job()
    worker = await rig.root.register_worker("lab:tasks:add")
    late = await rig.root.submit(delay=10)
    now = await rig.root.submit(max_requeues=1)
    run = await worker.begin()
    rig.advance(61)
    await worker.heartbeat()

    await rig.sweep()
    await rig.promote()

    assert (run["id"], (await rig.root.get(now))["status"]) == (now["id"], "pending")
    assert (await rig.root.get(late))["status"] == "pending"


async def test_a_refusal_is_the_same_problem_either_way(rig: Rig):
    await rig.root.register_job()
    alice = await rig.user("alice")
    task = await rig.root.submit()

    with refused("forbidden", 403):
        await alice.cancel(task)
    with refused("job-not-found", 404):
        await alice.submit("lab:tasks:none")
    with refused("task-not-found", 404):
        await alice.get({"id": "00000000-0000-7000-8000-000000000000"})
