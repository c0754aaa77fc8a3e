"""The dashboard on a real server over a real socket: what is committed is seen, and what is pressed is done."""

import asyncio

import httpx
import pytest

from tests.tui.real_server import JOB, client, link, register, seen, up
from treadle.encryption import FernetCodec, Sealer, new_key
from treadle.transport.bearer import Bearer
from treadle_server.testing import serve
from treadle_tui.core.live.link import SessionLink
from treadle_tui.core.live.ndjson import Stream
from treadle_tui.core.state.model import Model


async def submit(http: httpx.AsyncClient, angle: int) -> str:
    answer = await http.post(f"/v1/rooms/room_42/tasks/{JOB}", json={"payload": {"angle": angle}})
    answer.raise_for_status()
    return str(answer.json()["id"])


async def test_tasks_appear_are_paused_and_resumed_and_the_server_agrees() -> None:
    async with serve() as served, client(served) as http, up(Model(), link(served)) as pilot:
        await seen(pilot, lambda shown: "No queues yet" in shown)
        await register(http)
        first = await submit(http, 45)
        await submit(http, 90)
        await seen(pilot, lambda shown: first[-8:] in shown and '{"angle": 45}' in shown and "✗ starved" in shown)

        await pilot.press("2", "p")
        await seen(pilot, lambda shown: "‖ paused" in shown and "paused 1 task" in shown)
        assert (await http.get(f"/v1/tasks/{first}")).json()["status"] == "paused"

        await pilot.press("u")
        await seen(pilot, lambda shown: "undone: resumed 1 task" in shown and "‖ paused" not in shown)
        task = (await http.get(f"/v1/tasks/{first}")).json()
        assert (task["status"], task["queue_position"]) == ("pending", 1)

        await pilot.press("enter")
        await seen(pilot, lambda shown: f"{first}  {JOB}" in shown and "position 1" in shown)


async def test_3_what_is_committed_is_pushed_to_the_screen_and_never_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serve() as served, client(served) as http:
        await register(http)
        to = link(served)
        async with up(Model(), to) as pilot:
            # A queue that has just come is chosen, and its tasks are asked for, once: that is over when one is shown.
            first = await submit(http, 44)
            await seen(pilot, lambda shown: "● live" in shown and first[-8:] in shown and '{"angle": 44}' in shown)
            asked: list[str] = []
            request = to.request

            async def noted(op: str, **fields: object) -> dict[str, object]:
                asked.append(f"{op} {fields.get('topic', '')}".strip())
                return await request(op, **fields)

            monkeypatch.setattr(to, "request", noted)
            for angle in range(45, 50):
                key = await submit(http, angle)
                await seen(
                    pilot, lambda shown, key=key, angle=angle: key[-8:] in shown and f'{{"angle": {angle}}}' in shown
                )

    # But for pings: how long it took from the commit is measured where nothing else runs, in tests/terminal.
    assert set(asked) <= {"ping"}


async def test_an_encrypted_task_is_shown_in_plain_with_its_keys_and_as_encrypted_without() -> None:
    key = new_key()
    sealer = Sealer(FernetCodec(key))
    async with serve() as served, client(served) as http:
        body = {"category": "modifiers", "name": "Rotate", "schema": {}, "retain": True, "encrypted": True}
        (await http.put("/v1/rooms/@global/jobs", json=body)).raise_for_status()
        payload = sealer.value({"angle": "secret"})
        made = await http.post(f"/v1/rooms/room_42/tasks/{JOB}", json={"payload": payload})
        key_of_task = made.json()["id"]

        async with up(Model(sealer=sealer), link(served)) as pilot:
            await seen(pilot, lambda shown: key_of_task[-8:] in shown and '{"angle": "secret"}' in shown)
        async with up(Model(), link(served)) as pilot:
            shown = await seen(pilot, lambda shown: key_of_task[-8:] in shown and "(encrypted)" in shown)
            await pilot.press("2", "enter")
            detail = await seen(pilot, lambda shown: f"{key_of_task}  {JOB}" in shown and "no key for it" in shown)

    assert "treadle:encrypted" not in shown + detail
    assert "encrypted yes" in detail


async def test_the_headless_stream_prints_each_transition() -> None:
    lines: list[str] = []
    some = asyncio.Event()

    def write(line: str) -> None:
        lines.append(line)
        if '"pending"' in line:
            some.set()

    async with serve() as served, client(served) as http:
        await register(http)
        stream = Stream(link(served), write=write, complain=pytest.fail)
        running = asyncio.create_task(stream.run())
        async with asyncio.timeout(60):
            await stream.subscribed.wait()
            key = await submit(http, 45)
            await some.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    assert any(key in line for line in lines)


async def test_a_wrong_token_is_said_and_tried_again() -> None:
    async with serve() as served, up(Model(), SessionLink((served.url,), Bearer(lambda: "wrong"))) as pilot:
        await seen(pilot, lambda shown: "✗ token refused" in shown and "rejected the token. Trying again." in shown)
