"""When code begins: a target's at once, where enough of its lease is left (G5); what waits too long, elsewhere."""

import asyncio
from collections.abc import AsyncIterator, Container
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.waiting import until
from tests.worker.conftest import working_at
from tests.worker.fakes import fake_server
from treadle import task
from treadle.clock import monotonic
from treadle.ids import RunKey
from treadle.transport.http import HttpChannel
from treadle.transport.session import Session
from treadle.worker import runner
from treadle.worker.credentials import Credentials
from treadle.worker.lease import Held, Leases
from treadle.worker.link import HttpLink, Poll
from treadle.worker.reports import Answer, ReportData, Reporter
from treadle.worker.runner import Runner
from treadle.worker.uploads import Uploader

pytestmark = pytest.mark.anyio

LEASE = 60.0
RUN = {"task_id": "t", "run_id": 0}
CLAIM = {
    "id": "t", "run_id": 0, "job_name": "@global:tasks:hold", "payload": {}, "target": "robot", "seconds_left": LEASE,
    "heartbeat_increment": LEASE,
}  # fmt: skip

ODD: list[Any] = [
    *({name: value for name, value in CLAIM.items() if name != left_out} for left_out in ("id", "run_id", "job_name")),
    *(CLAIM | {"id": "odd", **wrong} for wrong in ({"weight": "x"}, {"seconds_left": "x"}, {"run_id": []})),
    *(None, "t", 7, []),
]
"""Claims that can't be read."""


class NoSteps:
    """Of code that calls no step."""

    async def steps(self, ref: dict[str, Any], offset: int) -> dict[str, Any]:
        raise AssertionError(f"{ref} was asked for its steps")

    async def receive(self, body: dict[str, Any]) -> dict[str, Any]:
        raise AssertionError(f"{body} was to receive a message")


@dataclass
class Scene:
    """A runner whose one task has a target, and a server that answers it nothing before it may."""

    runner: Runner
    leases: Leases
    speaks: asyncio.Event
    told: list[str]
    """What was sent, in its order."""
    begun: asyncio.Event
    asked: asyncio.Event
    """Set when both a start and a renewal were sent."""
    returned: list[str]
    """The tasks that were handed back."""
    told_first: list[str] = field(default_factory=list)
    """What had been sent when the code began."""


@asynccontextmanager
async def staged(*, hoards: bool = False) -> AsyncIterator[Scene]:
    told: list[str] = []
    returned: list[str] = []
    speaks, begun, asked = asyncio.Event(), asyncio.Event(), asyncio.Event()

    def tell(*kinds: str) -> None:
        told.extend(kinds)
        if {"started", "beat"} <= set(told):
            asked.set()

    async def send(reports: list[ReportData]) -> list[Answer]:
        tell(*(report["kind"] for report in reports))
        await speaks.wait()
        return [{"status": 200} for _ in reports]

    async def beat(body: dict[str, Any]) -> dict[str, Any]:
        assert body == {"tasks": [RUN]}
        tell("beat")
        await speaks.wait()
        return {"taken_until": [{**RUN, "seconds_left": LEASE}]}

    @task(name="hold")
    async def hold() -> None:
        scene.told_first = told.copy()
        begun.set()
        await asyncio.Event().wait()

    reporter = Reporter(send, lambda _report, _answer: None)
    reporter.online.set()
    leases = Leases(beat)
    async with asyncio.TaskGroup() as group:
        runner = Runner(
            {hold.full_name: hold},
            reporter,
            leases,
            group,
            concurrency=1,
            hoards=hoards,
            give_back=lambda refs: returned.extend(ref["task_id"] for ref in refs),
            uploader=Uploader((), None),
            credentials=Credentials(beat, reporter.online, ()),
            step_link=NoSteps(),
        )
        scene = Scene(runner, leases, speaks, told, begun, asked, returned)
        sending = group.create_task(reporter.run())
        yield scene
        speaks.set()
        for held in list(leases.held.values()):
            leases.stop_run(held, "cancel")
        assert await runner.idle(5)
        assert await reporter.flushed(5)
        sending.cancel()
    for held in list(leases.held.values()):
        leases.drop(held)


async def test_g5_code_with_a_target_begins_without_an_answer_when_its_lease_has_just_begun() -> None:
    async with staged() as scene, asyncio.timeout(20):
        since = monotonic()
        scene.runner.take([CLAIM], since)
        await scene.begun.wait()

        [held] = scene.leases.held.values()
        assert held.expires == since + LEASE
        assert held.timer is not None  # its code is stopped before its lease ends

    assert "beat" not in scene.told


async def test_a_claim_that_can_not_be_read_keeps_no_other_from_being_begun(caplog: pytest.LogCaptureFixture) -> None:
    """It cost the connection, with all that was under way on it, and came again over the next one."""
    async with staged() as scene, asyncio.timeout(20):
        scene.runner.take([*ODD, CLAIM], monotonic())
        await scene.begun.wait()

        assert [held.key for held in scene.leases.held.values()] == [("t", 0)]

    assert len([one for one in caplog.messages if "a claim can't be read" in one]) == len(ODD)


async def test_in_a_drain_what_can_be_read_is_handed_back_but_no_run_whose_code_runs() -> None:
    """There such a claim still cost the connection; and a claim that came again was handed back while its code ran."""
    async with staged() as scene, asyncio.timeout(20):
        scene.runner.take([CLAIM], monotonic())
        await scene.begun.wait()
        scene.runner.is_draining = True

        scene.runner.take([*ODD, CLAIM | {"id": "other"}, CLAIM], monotonic())

        assert [one for one in scene.returned if one != "odd"] == ["other"]


async def test_g5_seconds_that_may_have_passed_before_the_claim_was_read_count_as_passed() -> None:
    """The last answer came 40 s ago: of 60 s of the lease 20 are known to be left, and the lease is renewed first."""
    async with staged() as scene, asyncio.timeout(20):
        scene.runner.take([CLAIM], monotonic() - 40)
        await scene.asked.wait()
        assert not scene.begun.is_set()
        before = monotonic()
        scene.speaks.set()
        await scene.begun.wait()

        [held] = scene.leases.held.values()
        assert before + 20 < held.expires <= before + LEASE
        assert held.timer is not None

    assert set(scene.told_first) == {"started", "beat"}


async def test_g5_code_begins_at_once_as_long_as_half_of_a_renewal_is_left() -> None:
    async with staged() as scene, asyncio.timeout(20):
        scene.runner.take([CLAIM], monotonic() - LEASE / 2 + 1)
        await scene.begun.wait()

    assert "beat" not in scene.told


def claims(*names: str) -> list[dict[str, Any]]:
    return [{**CLAIM, "id": name, "target": None} for name in names]


async def test_what_waits_behind_something_long_is_handed_back_for_others_to_do() -> None:
    async with staged() as scene, asyncio.timeout(20):
        scene.runner.take(claims("long", "next", "last"), monotonic())
        await scene.begun.wait()
        assert scene.returned == [], "it may be short"

        await until(lambda: scene.returned)

        assert scene.returned == ["next", "last"]
        assert {held.key[0] for held in scene.leases.held.values()} == {"long"}


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The first of what waited, at each look at it; there is one after the other."""
    found: list[str] = []
    look = Runner._look

    def noted(self: Runner, first: Held) -> None:
        found.append(first.key[0])
        look(self, first)

    monkeypatch.setattr(runner, "OVERFLOW", 0.0)
    monkeypatch.setattr(Runner, "_look", noted)
    return found


async def test_what_waits_is_looked_at_anew_when_one_of_it_has_begun(looked: list[str]) -> None:
    """So much is claimed ahead as is done in a moment: it is no sign of anything that some still waits then."""
    async with staged() as scene, asyncio.timeout(20):
        scene.runner.take(claims("long", "next", "last"), monotonic())
        scene.runner._begin(scene.runner._waiting.popleft())
        await until(lambda: scene.returned, pause=0)

    assert (looked, scene.returned) == (["next", "last"], ["last"])


async def test_what_somebody_wants_to_wait_here_waits_however_long_it_takes(looked: list[str]) -> None:
    async with staged(hoards=True) as scene, asyncio.timeout(20):
        scene.runner.take(claims("long", "next"), monotonic())
        await until(lambda: len(looked) == 3, pause=0)

        assert scene.returned == []
        assert {held.key[0] for held in scene.leases.held.values()} == {"long", "next"}


@pytest.mark.parametrize(
    ("counts", "waits"),
    [
        ({"run_id": 2}, True),
        ({"run_id": 5, "retry_count": 1, "requeue_count": 1, "steps": 1}, True),
        ({"run_id": 1}, False),
        ({"run_id": 5, "retry_count": 2, "requeue_count": 1, "steps": 1}, False),
    ],
    ids=["returned twice", "returned twice among others", "returned once", "what else ends runs"],
)
async def test_code_whose_runs_were_returned_begins_when_its_start_is_kept(counts: dict[str, int], waits: bool) -> None:
    """It may end its worker at once, which is to cost a requeue then; for all others nobody waits."""
    async with staged() as scene, asyncio.timeout(20):
        scene.runner.take([{**CLAIM, "target": None, **counts}], monotonic())
        if waits:
            await until(lambda: "started" in scene.told)
            assert not scene.begun.is_set()
            scene.speaks.set()
        await scene.begun.wait()

    assert ("started" in scene.told_first) is waits


async def test_g5_the_code_stops_when_its_start_is_refused() -> None:
    """The task was cancelled while the claim was on its way: its hold stands until the word that the code stopped."""
    cancelled, stopped = asyncio.Event(), asyncio.Event()

    def answer(item: dict[str, Any]) -> Any:
        kinds = [report["kind"] for report in item.get("reports", ())]
        if "stopped" in kinds:
            assert cancelled.is_set()
            stopped.set()
        refused = [{"index": i, "status": 409} for i, kind in enumerate(kinds) if kind == "started"]
        return {"worker": {"id": "w"}, "refused": refused}

    @task(name="hold")
    async def hold() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async with fake_server(answer) as fake, working_at(fake.url, "t", hold):
        await fake.push(push="claim", tasks=[CLAIM])
        async with asyncio.timeout(20):
            await stopped.wait()


async def test_g2_a_claim_that_is_told_twice_is_begun_once() -> None:
    begun: list[int] = []
    completed = asyncio.Event()

    def answer(item: dict[str, Any]) -> Any:
        if any(report["kind"] == "completed" for report in item.get("reports", ())):
            completed.set()
        return {"worker": {"id": "w"}, "refused": []}

    @task(name="hold")
    async def hold() -> None:
        begun.append(1)
        await asyncio.sleep(0)

    async with fake_server(answer) as fake, working_at(fake.url, "t", hold):
        await fake.push(push="claim", tasks=[CLAIM, CLAIM])
        async with asyncio.timeout(20):
            await completed.wait()

    assert begun == [1]


class HandClock:
    """A monotonic clock that is turned by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


async def test_g5_a_session_knows_when_the_latest_of_its_answered_requests_was_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that was made later and has no answer says nothing of what is read meanwhile."""
    clock = HandClock()
    monkeypatch.setattr("treadle.transport.session.monotonic", clock)
    asked = asyncio.Event()

    def answer(item: dict[str, Any]) -> Any:
        if item["op"] == "ping":
            clock.now += 1  # the answer comes later than the request
            return {}
        asked.set()
        return None

    async with fake_server(answer) as fake, asyncio.TaskGroup() as group:
        session = Session((fake.url,), None, on_push=lambda _: None)
        group.create_task(session.run())
        made = clock.now
        await session.call("ping")
        clock.now += 5
        silent = group.create_task(session.call("get"))
        async with asyncio.timeout(20):
            await asked.wait()

        assert session.heard == made
        silent.cancel()
        await session.close()


async def test_g5_over_http_a_lease_counts_from_when_the_claim_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other requests have connections of their own, whose answers may overtake the claim."""
    clock = HandClock()
    monkeypatch.setattr("treadle.worker.link.monotonic", clock)
    taken: list[Held] = []
    took = asyncio.Event()

    class SlowLink(HttpLink):
        async def claim(self, count: int, *, wait: float = 20) -> list[dict[str, Any]]:
            clock.now += 19
            return [CLAIM]

        async def return_strange(self, held: Container[RunKey]) -> None:
            """Nothing was lost."""

    class RoomForOne(Runner):
        free = 1

        def __init__(self) -> None:
            self.freed = asyncio.Event()
            self.freed.set()

        def take(self, claims: list[dict[str, Any]], since: float) -> None:
            taken.extend(Held(claim, since) for claim in claims)
            self.free = 0
            took.set()

    began = clock.now
    link = SlowLink(HttpChannel(("http://unused.invalid",), None))
    poll = Poll(link, RoomForOne(), (), leaves=lambda: False)
    polling = asyncio.ensure_future(poll.run())
    async with asyncio.timeout(20):
        await took.wait()
    polling.cancel()
    await asyncio.wait({polling})

    assert [held.expires for held in taken] == [began + LEASE]
