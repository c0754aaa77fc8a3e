"""What a worker over plain HTTP does when the answer to a request was lost on its way (C1, T8)."""

import asyncio
from collections.abc import AsyncIterator, Container
from typing import Any

import httpx
import pytest

from tests.worker.fakes import fake_server, session_to
from tests.worker.jobs import double
from treadle import Client
from treadle.errors import ConnectionLost
from treadle.ids import RunKey
from treadle.settings import Settings
from treadle.transport.http import HttpChannel
from treadle.transport.retries import HoldCut
from treadle.worker.link import CLAIM_WAIT, HttpLink, Poll, SocketLink
from treadle.worker.runner import Runner
from treadle_server.testing import Served

pytestmark = pytest.mark.anyio


class Losing(httpx.AsyncHTTPTransport):
    """Loses the first answer that has claims, after the server has given it."""

    def __init__(self) -> None:
        super().__init__()
        self.lost: list[bytes] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        answer = await super().handle_async_request(request)
        if request.url.path.endswith("/claim") and not self.lost:
            await answer.aread()
            if answer.json()["tasks"]:
                self.lost.append(answer.content)
                raise httpx.ReadError("the connection was reset")
        return answer


@pytest.fixture
async def transport() -> AsyncIterator[Losing]:
    async with Losing() as transport:
        yield transport


async def test_claims_whose_answer_was_lost_are_given_again_c1_t8(
    server: Served, client: Client, transport: Losing
) -> None:
    """The same runs, none of which costs anything; and the next claim gives others."""
    http = HttpChannel((server.url,), server.token, patience=20, transport=transport)
    link = HttpLink(http)
    job = {"room": double.job.room, **double.registration(Settings())}
    await link.open({"worker": {"concurrency": 10}, "jobs": [job]})
    for n in range(3):
        await client.submit(double.bind(n))

    claimed = await link.claim(2)
    others = await link.claim(2)

    assert len(transport.lost) == 1
    assert [(one["payload"], one["run_id"]) for one in claimed] == [({"n": 0}, 0), ({"n": 1}, 0)]
    assert [one["payload"] for one in others] == [{"n": 2}]
    assert [(await client.get(one["id"])).status for one in claimed] == ["claimed", "claimed"]


async def test_a_wait_for_claims_that_is_cut_off_goes_on_at_once_in_shorter_ones() -> None:
    """As behind a proxy that cuts at five seconds: between the waits there were pauses of up to five more."""
    done: list[float | str] = []

    class CutLink(HttpLink):
        async def claim(self, count: int, *, wait: float = CLAIM_WAIT) -> list[dict[str, Any]]:
            done.append(wait)
            if wait > 5:
                raise HoldCut("answers 504", 5.03)
            return []

        async def return_strange(self, held: Container[RunKey]) -> None:
            done.append("looked for what was lost")

    class FreeRunner(Runner):
        free = 1

        def __init__(self) -> None:
            self.freed = asyncio.Event()
            self.freed.set()

        def take(self, claims: list[dict[str, Any]], since: float) -> None: ...

    link = CutLink(HttpChannel(("http://unused.invalid",), None))
    poll = Poll(link, FreeRunner(), (), leaves=lambda: done.count(4) == 3)

    await poll.run()

    assert done == ["looked for what was lost", CLAIM_WAIT, "looked for what was lost", 4, 4, 4]


async def test_jobs_are_registered_side_by_side_so_that_a_slow_line_delays_a_worker_once(server: Served) -> None:
    """One after the other forty took a line of 300 ms twelve seconds, at each opening."""
    all_asked = asyncio.Barrier(3)

    class Gathering(httpx.AsyncHTTPTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            if request.method == "PUT":
                await all_asked.wait()
            return await super().handle_async_request(request)

    jobs = [{"room": double.job.room, **double.registration(Settings()), "name": name} for name in ("a", "b", "c")]
    async with Gathering() as transport, asyncio.timeout(20):
        http = HttpChannel((server.url,), server.token, transport=transport)
        opened = await HttpLink(http).open({"worker": {}, "jobs": jobs})

    assert [job["name"] for job in opened["jobs"]] == ["a", "b", "c"]
    assert {job["worker_id"] for job in opened["jobs"]} == {opened["worker"]["id"]}


@pytest.mark.parametrize("room", ["%6cab", "..", "a?b", "a#b"])
async def test_a_job_is_registered_in_its_room_whatever_that_means_in_a_path(
    server: Served, transport: Losing, room: str
) -> None:
    """%6cab was registered in the room lab, and the others nowhere."""
    http = HttpChannel((server.url,), server.token, transport=transport)

    opened = await HttpLink(http).open({"worker": {}, "jobs": [{"room": room, **double.registration(Settings())}]})

    assert [job["room_id"] for job in opened["jobs"]] == [room]


async def test_an_answer_to_a_claim_that_can_not_be_read_or_comes_at_once_is_asked_for_again_behind_a_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first ended the claims with a traceback, to begin anew at once; the second was asked for without a pause."""
    pauses: list[float] = []
    answers: list[list[dict[str, Any]]] = [[], [], [{"id": "without a run"}], []]

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    class QuickLink(HttpLink):
        async def claim(self, count: int, *, wait: float = CLAIM_WAIT) -> list[dict[str, Any]]:
            return answers.pop()

        async def return_strange(self, held: Container[RunKey]) -> None: ...

    class FreeRunner(Runner):
        free = 1

        def __init__(self) -> None:
            self.freed = asyncio.Event()
            self.freed.set()

        def take(self, claims: list[dict[str, Any]], since: float) -> None:
            assert not [claim["run_id"] for claim in claims]

    poll = Poll(QuickLink(HttpChannel(("http://unused.invalid",), None)), FreeRunner(), (), leaves=lambda: not answers)
    monkeypatch.setattr("treadle.worker.link.asyncio.sleep", pause)

    await poll.run()

    assert len(pauses) == 4
    assert pauses[-1] > pauses[0]


@pytest.mark.parametrize("odd", [None, 7, {}, {"refused": 7}, {"refused": [7]}, {"refused": [{"index": 1}]}])
async def test_an_answer_to_reports_that_can_not_be_read_is_told(odd: Any) -> None:
    """It was a `KeyError` or a `TypeError`, which the worker called a bug of its own."""
    async with fake_server(lambda _: odd or []) as server, session_to(server) as session:
        await session.call("ping")

        with pytest.raises(ConnectionLost, match="the server's answer can't be read"):
            await SocketLink(session).reports([{"kind": "started"}])
