"""Steps are kept over the deaths of those who ran them."""

from collections import Counter
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.processes import WorkerProcess, running_server, stopped_at_the_end
from tests.chaos.stepped import climb
from tests.waiting import until
from treadle import Client, Options, TaskHandle
from treadle.wire.status import WAITING, Status

pytestmark = pytest.mark.anyio


async def _at_once(handle: TaskHandle[Any]) -> bool:
    """Spare the task the back-off of a lost run, as soon as it is noticed; return whether it was."""
    status = (await handle.get()).status
    if status is Status.SCHEDULED:
        await handle.edit(delay=0)
    return status in WAITING


@pytest.mark.parametrize("kills", [4, pytest.param(20, marks=pytest.mark.soak)])
async def test_g4_each_step_s_effect_comes_once_but_for_the_one_that_was_cut_off(
    tmp_path: Path, database_url: str, kills: int
) -> None:
    """The worker is killed with -9: within the even steps, whose effect comes again, and behind the odd."""
    effects = tmp_path / "effects"

    def done() -> list[int]:
        return [int(line) for line in effects.read_text().split()] if effects.exists() else []

    with running_server(tmp_path, database_url, TREADLE_SWEEPER_INTERVAL_SECONDS="0.2") as server:
        worker = WorkerProcess(server, "tests.chaos.stepped", TREADLE_TEST_MARKS=str(tmp_path))
        async with Client(url=server.url, token=server.token) as client:
            with stopped_at_the_end(worker):
                handle = await client.submit(climb.bind(kills))
                for k in range(kills):
                    worker.start()

                    async def is_there(k: int = k) -> bool:
                        return k in done() and len(await handle.steps()) == k + k % 2

                    await until(is_there)
                    worker.kill()
                    (tmp_path / f"open-{k}").touch()
                    await until(partial(_at_once, handle))
                worker.start()
                result = await handle.result(timeout=60)
            runs = [run.reason for run in await handle.runs()]

    assert result == sum(range(kills))
    assert Counter(done()) == {k: 1 if k % 2 else 2 for k in range(kills)}
    assert runs == ["claim-expired"] * kills + [None]


@pytest.mark.one_database
async def test_the_agent_that_asks_goes_on_after_a_kill_within_each_of_its_steps(
    tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2]))
    assistant = import_module("examples.approved_agent").assistant

    def called() -> list[str]:
        return (tmp_path / "calls").read_text().splitlines() if (tmp_path / "calls").exists() else []

    with running_server(tmp_path, database_url, TREADLE_SWEEPER_INTERVAL_SECONDS="0.2") as server:
        worker = WorkerProcess(server, "tests.chaos.approved", TREADLE_TEST_MARKS=str(tmp_path))
        async with Client(url=server.url, token=server.token) as client:
            with stopped_at_the_end(worker):
                handle = await client.submit(assistant.bind("cake"), options=Options(lease_seconds=3.0))
                await handle.send("approved", True)
                for calls in (1, 3, 5, 7):
                    worker.start()

                    async def is_there(calls: int = calls) -> bool:
                        return len(called()) == calls

                    await until(is_there)
                    worker.kill()
                    (tmp_path / f"open {called()[-1]}").touch()
                    await until(partial(_at_once, handle))
                worker.start()
                result = await handle.result(timeout=60)

    steps = ["plan cake", "use calendar", "use draft", "invite Please come: cake"]
    assert result == ["Friday is free", "Please come: cake", "sent: Please come: cake"]
    assert called() == [step for step in steps for _ in range(2)]
