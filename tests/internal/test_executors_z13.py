"""Row Z13: what an executor has had for too long is failed, counted from its claim."""

from tests.conftest import FakeClock
from tests.internal.conftest import Serving
from tests.internal.site import PaperBroker, Site


async def test_z13_a_task_is_failed_by_the_sweeper_an_hour_after_its_claim(dispatcher: Site, broker: PaperBroker):
    claimed, running = await dispatcher.submit(max_retries=5, max_requeues=5), await dispatcher.submit(max_retries=5)
    await dispatcher.pass_time(3000)
    assert await dispatcher.start(broker.claims[1]) == 200

    await dispatcher.pass_time(599)
    assert [(await dispatcher.get(task))["status"] for task in (claimed, running)] == ["claimed", "running"]

    await dispatcher.pass_time(1)
    for task in (claimed, running):
        found = await dispatcher.get(task)
        assert (found["status"], found["error"], found["reason"]) == ("failed", "Internal worker timeout", "timeout")
    assert await dispatcher.report(broker.claims[1], "completed", result=1) in {401, 409}
    assert (await dispatcher.get(running))["result"] is None


async def test_z13_the_limit_is_a_setting_and_no_call_can_change_it(serving: Serving):
    async with serving(internal_task_timeout_seconds=100) as dispatcher:
        task = await dispatcher.submit(lease_seconds=5, heartbeat_increment=5, start_timeout=5)

        await dispatcher.pass_time(99)
        assert (await dispatcher.get(task))["status"] == "claimed"

        await dispatcher.pass_time(1)
        assert (await dispatcher.get(task))["status"] == "failed"


async def test_z13_a_reclaim_does_not_extend_it(dispatcher: Site, broker: PaperBroker):
    task = await dispatcher.submit()
    await dispatcher.start(broker.claims[0])
    await dispatcher.pass_time(3599)

    assert await dispatcher.report(broker.claims[0], "reclaim") == 200
    await dispatcher.pass_time(1)

    assert (await dispatcher.get(task))["error"] == "Internal worker timeout"


async def test_z13_a_stuck_task_leaves_its_place_to_the_next(serving: Serving):
    async with serving(concurrency=1) as dispatcher:
        await dispatcher.submit()
        second = await dispatcher.submit()

        await dispatcher.pass_time(3600)

        await dispatcher.until(second, lambda task: task["status"] == "claimed")


async def test_z13_a_restart_gives_no_more_time_and_a_jump_of_the_clock_takes_none(serving: Serving, clock: FakeClock):
    async with serving() as dispatcher:
        task = await dispatcher.submit()
        await dispatcher.sweep()
        clock.jump(7200)
        await dispatcher.sweep()
        assert (await dispatcher.get(task))["status"] == "claimed"
        clock.advance(1800)

    async with serving() as dispatcher:
        await dispatcher.sweep()
        await dispatcher.pass_time(1799)
        assert (await dispatcher.get(task))["status"] == "claimed"

        await dispatcher.pass_time(1)
        assert (await dispatcher.get(task))["error"] == "Internal worker timeout"


async def test_a_tasks_own_timeout_is_heeded_before(dispatcher: Site, broker: PaperBroker):
    task = await dispatcher.submit(timeout=10)
    await dispatcher.start(broker.claims[0])

    await dispatcher.pass_time(13)

    assert "longer than its timeout of 10 s" in (await dispatcher.get(task))["error"]
