"""No process is left behind by who wanted it and went."""

import asyncio

import psutil
import pytest

from treadle.isolation.processes import Child, ChildDied, Children


def _processes() -> set[int]:
    return {process.pid for process in psutil.Process().children() if "treadle.isolation.child" in process.cmdline()}


async def test_a_process_that_starts_while_the_worker_ends_is_ended() -> None:
    before = _processes()
    children = Children()
    taking = asyncio.create_task(children.take())
    await asyncio.sleep(0)
    await children.close()
    with pytest.raises(ChildDied, match="before the task's process had begun"):
        await taking
    assert _processes() == before


async def test_a_process_whose_start_is_given_up_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    before = _processes()
    is_started = asyncio.Event()

    async def open_connection(**_: object) -> None:
        is_started.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(asyncio, "open_connection", open_connection)
    starting = asyncio.create_task(Child.start())
    await is_started.wait()
    assert len(_processes() - before) == 1
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert _processes() == before
