"""What the examples promise, seen with a real server, and workers as `treadle worker` runs them."""

import asyncio
import sqlite3
import struct
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from treadle import Client, Options
from treadle.encryption import new_key
from treadle.errors import TaskFailed

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
MOST_LINES = 60


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_each_example_is_short_named_in_the_docs_and_run_by_a_test(path: Path) -> None:
    pages = "".join(page.read_text() for page in (ROOT / "README.md", *ROOT.glob("docs/*.md")))
    tests = "".join(test.read_text() for test in Path(__file__).parent.glob("test_*.py"))

    assert len(path.read_text().splitlines()) <= MOST_LINES
    assert f"examples/{path.name}" in pages
    assert f'example("examples.{path.stem}")' in tests


async def test_hello_greets_and_counts(example: Any, worker: Any) -> None:
    module = example("examples.hello")
    async with Client(), worker(module):
        greeting, counting = await module.hello.submit("Ann"), await module.count.submit(to=3, seconds=0)

        assert await greeting.result(timeout=60) == "Hello, Ann!"
        assert await counting.result(timeout=60) == 3
        assert (await counting.get()).checkpoint == 3


def test_internal_tasks_run_in_the_server(example: Any) -> None:
    from treadle import SyncClient
    from treadle_server.testing import serve_in_thread

    module = example("examples.internal")
    with serve_in_thread(internal=module.registry) as served, SyncClient(served.url, served.token) as client:
        greeting, tidying = client.submit(module.greet.bind("Ann")), client.submit(module.tidy.bind(days=2))

        assert greeting.result(timeout=60) == "Hello, Ann, from the server"
        assert tidying.result(timeout=60) == 2


async def test_the_pipeline_counts_adds_up_and_prints(
    example: Any, worker: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    module = example("examples.pipeline")
    for name, text in {"a.txt": "to be or not to be", "b.txt": "Not now"}.items():
        (tmp_path / name).write_text(text)

    async with worker(module):
        await module.main([tmp_path / "a.txt", tmp_path / "b.txt"])

    assert capsys.readouterr().out.splitlines() == ["     2 to", "     2 be", "     2 not", "     1 or", "     1 now"]


async def test_the_pipeline_goes_on_where_it_was(example: Any, worker: Any, tmp_path: Path) -> None:
    module = example("examples.pipeline")
    first, second = tmp_path / "first.txt", tmp_path / "second.txt"
    first.write_text("once")
    async with Client() as client, worker(module):
        counting = await module.count_words.submit([first, second], options=Options(max_retries=0))
        with pytest.raises(TaskFailed, match="FileNotFoundError"):
            await counting.result(timeout=60)
        first.unlink()
        second.write_text("twice twice")
        await counting.resume()
        total = client.handle(await counting.result(timeout=60))

        assert await total.result(timeout=60) == [["twice", 2], ["once", 1]]


async def test_what_is_periodic_is_known_to_the_server_when_its_worker_is_there(
    example: Any, worker: Any, until: Any
) -> None:
    async with Client() as client, worker(example("examples.periodic")):

        async def are_told() -> bool:
            return (await client.schedules()).total == 2

        await until(are_told)
        digest, look = await client.schedule("tasks:digest"), await client.schedule("tasks:look")
        asked = await client.run_schedule("tasks:look")

        assert (digest.cron, digest.zone, look.interval) == ("30 9 * * MON-FRI", "Europe/Berlin", 60)
        assert 0 < await client.handle(asked.id).result(timeout=60) <= 1


async def test_an_encrypted_task_is_read_by_those_who_have_its_key(
    example: Any, worker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = example("examples.encrypted")
    async with Client() as unknowing:
        monkeypatch.setenv("TREADLE_ENCRYPTION_KEYS", new_key())
        async with Client() as client, worker(module):
            handle = await module.summarise.submit("Ada", [1.0, 3.0])
            assert await handle.result(timeout=60) == {"mean": 2.0, "most": 3.0}
            [line] = await client.logs(handle.id)
        kept = await unknowing.get(handle.id)

    assert line.message == "2 values of Ada"
    assert kept.encrypted
    assert "Ada" not in kept.model_dump_json()


async def test_an_isolated_task_ends_with_its_process_when_its_time_is_over(example: Any, worker: Any) -> None:
    module = example("examples.isolated")
    async with Client(), worker(module, concurrency=1):
        late = await module.factors.submit(1000000000000000003, options=Options(timeout=0.5))
        with pytest.raises(TaskFailed, match="timeout"):
            await late.result(timeout=60)
        # Code that went on would keep the worker's only place, for minutes.
        soon = await module.factors.submit(600851475143)

        assert await soon.result(timeout=30) == [71, 839, 1471, 6857]


async def test_a_picture_is_drawn_in_a_process_and_stays_with_its_task(
    example: Any, worker: Any, tmp_path: Path
) -> None:
    module = example("examples.pictures")
    async with Client(), worker(module):
        drawing = await module.mandelbrot.submit(zoom=2.0, width=12, height=9)
        name = await drawing.result(timeout=60)
        picture = (await drawing.download(name, tmp_path)).read_bytes()

    assert name == "mandelbrot-2.png"
    assert picture.startswith(b"\x89PNG\r\n")
    assert struct.unpack(">II", picture[16:24]) == (12, 9)


def test_the_agent_pauses_before_it_sends_and_pays_for_no_step_twice(
    example: Any, treadle_client: Any, treadle_worker: Any
) -> None:
    module = example("examples.llm_agent")
    worker = treadle_worker(module.agent)
    working = treadle_client.submit(module.agent.bind("invite everybody"))

    (paused,) = worker.run_all()
    working.resume()
    (done,) = worker.run_all()

    assert (paused.status, paused.error) == ("paused", "may I send the invitation?")
    assert done.result == ["read the calendar", "write a draft", "send the invitation"]
    assert done.usage == pytest.approx(0.04)


def test_the_agent_stops_at_its_budget(example: Any, treadle_client: Any, treadle_worker: Any) -> None:
    module = example("examples.llm_agent")
    treadle_client.submit(module.agent.bind("invite everybody", options=Options(budget=0.025)))

    (failed,) = treadle_worker(module.agent).run_all()

    assert (failed.status, failed.reason) == ("failed", "budget-exceeded")


@pytest.mark.parametrize("is_approved", [True, False])
def test_the_agent_asks_before_it_invites(
    example: Any, treadle_client: Any, treadle_worker: Any, *, is_approved: bool
) -> None:
    module = example("examples.approved_agent")
    worker = treadle_worker(module.assistant)
    handle = treadle_client.submit(module.assistant.bind("cake at four"))

    (asking,) = worker.run_all()
    handle.send("approved", is_approved)
    (done,) = worker.run_all()

    assert (asking.status, asking.reason) == ("scheduled", "suspended")
    sent = ["sent: Please come: cake at four"] if is_approved else []
    assert done.result == ["Friday is free", "Please come: cake at four", *sent]
    assert [step.step for step in handle.steps()] == ["plan", "calendar", "draft", "approved", *["invite"][: len(sent)]]


async def test_only_the_pool_takes_what_needs_a_gpu(
    example: Any, worker: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    module = example("examples.gpu_pool")
    async with Client(), worker(module):
        embedding, told = await module.embed.submit("a b"), await module.tell.submit("no pool")
        assert await told.result(timeout=60) == "NO POOL"
        assert (await embedding.get()).status == "pending"

        async with worker(module, pool="gpu", concurrency=24):
            assert await embedding.result(timeout=60) == [1, 1]
            await module.main()

    assert capsys.readouterr().out.splitlines() == [
        "[1.0, 4.0, 2.0, 3.0, 5.0]",
        "SMALL, 1 EPOCHS",
        "SMALL, 2 EPOCHS",
    ]


async def test_f6_an_order_of_the_shop_is_confirmed_through_its_outbox(
    example: Any, worker: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_DATABASE", f"sqlite+aiosqlite:///{tmp_path}/shop.db")
    module = example("examples.outbox")
    async with Client() as client, worker(module), module.lifespan(module.app):
        ids = [await module.order(item) for item in ("tea", "cake")]
        results = [await client.expect(task_id).result(timeout=60) for task_id in ids]

    assert results == ["Order 1: tea is on its way", "Order 2: cake is on its way"]


async def test_the_report_fans_out_and_in_again(example: Any, worker: Any, capsys: pytest.CaptureFixture[str]) -> None:
    module = example("examples.report")
    asked: list[str] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = (await reader.readuntil(b"\r\n\r\n")).split()[1].decode()
        asked.append(path)
        page = b"word " * (1 + int(path.removeprefix("/")))
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(page), page))
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1") as server, worker(module, concurrency=20):
        port = server.sockets[0].getsockname()[1]
        told = await module.main(f"http://127.0.0.1:{port}/{{}}", 95)

    assert told == {"pages": 95, "least": 1, "most": 95}
    assert sorted(asked) == sorted(f"/{number}" for number in range(95))
    assert capsys.readouterr().out.splitlines() == ["100 of 106 tasks have ended"]


async def test_the_nightly_load_waits_for_the_rates_and_reads_nothing_twice(
    example: Any, worker: Any, until: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SALES", str(tmp_path))
    module = example("examples.nightly")
    monkeypatch.setattr(module, "AGAIN", 0.5)
    (tmp_path / "sales.csv").write_text("tea,GBP,2\ncake,EUR,3.5\n")
    async with Client() as client, worker(module):
        begun = await module.begin.submit()
        last = client.handle(await begun.result(timeout=60))
        extract, middle, _ = (await client.flow((await last.get()).flow_id)).tasks

        async def is_late() -> bool:
            return (await client.get(middle.id)).retry_count > 0

        await until(is_late)
        (tmp_path / "sales.csv").unlink()
        (tmp_path / "rates.json").write_text('{"EUR": 1, "GBP": 1.25}')

        assert await last.result(timeout=60) == 2
        assert len(await client.runs(extract.id)) == 1
    with closing(sqlite3.connect(tmp_path / "kept.db")) as database:
        assert database.execute("SELECT item, euros FROM sales").fetchall() == [("tea", 2.5), ("cake", 3.5)]
