"""Names of receivers are looked up where nothing else waits (E12, N5)."""

import asyncio
import gc
import threading
from collections.abc import Iterator

import pytest

from tests.waiting import until
from treadle_server.webhooks import names as names_module
from treadle_server.webhooks.names import Names

pytestmark = pytest.mark.anyio


class Silent:
    """A resolver that says nothing of names in `silent.example` until it is released."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.release = threading.Event()

    def __call__(self, host: str) -> list[str] | OSError:
        self.asked.append(host)
        if not host.endswith("silent.example"):
            return ["192.0.2.1"]
        self.release.wait()
        return OSError("nothing was said")


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[Silent]:
    silent = Silent()
    monkeypatch.setattr(names_module, "_looked_up", silent)
    yield silent
    silent.release.set()


async def test_a_name_that_nobody_answers_for_keeps_no_other_waiting_and_is_asked_for_once_e12(silent) -> None:
    names = Names()
    waiting = [asyncio.create_task(names.addresses("silent.example")) for _ in range(50)]
    await until(lambda: silent.asked, pause=0.002)

    assert await names.addresses("hooks.example") == ["192.0.2.1"]

    assert silent.asked == ["silent.example", "hooks.example"]
    silent.release.set()
    failures = await asyncio.gather(*waiting, return_exceptions=True)
    assert {str(failure) for failure in failures} == {"nothing was said"}


async def test_who_gives_up_waiting_for_a_name_leaves_the_look_up_to_who_asks_next_e12(silent) -> None:
    names = Names()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await names.addresses("silent.example")

    waiting = asyncio.create_task(names.addresses("silent.example"))
    silent.release.set()

    with pytest.raises(OSError, match="nothing was said"):
        await waiting
    assert silent.asked == ["silent.example"]
    with pytest.raises(OSError, match="nothing was said"):
        await names.addresses("silent.example")
    assert silent.asked == ["silent.example"] * 2


async def test_a_name_that_has_no_address_after_all_have_given_up_is_no_error_of_the_log_e12(silent, caplog) -> None:
    names = Names()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await names.addresses("silent.example")

    silent.release.set()
    await until(lambda: not names._under_way, pause=0.002)
    gc.collect()

    assert caplog.messages == []


async def test_so_many_names_are_looked_up_at_once_e12(silent, monkeypatch) -> None:
    monkeypatch.setattr(names_module, "MOST", 2)
    names = Names()
    waiting = [asyncio.create_task(names.addresses(f"{n}.silent.example")) for n in range(2)]
    late = asyncio.create_task(names.addresses("hooks.example"))
    await until(lambda: len(silent.asked) == 2, pause=0.002)

    silent.release.set()

    assert await late == ["192.0.2.1"]
    assert len(silent.asked) == 3
    await asyncio.gather(*waiting, return_exceptions=True)


def test_a_loop_that_ends_waits_for_no_name_e12(silent) -> None:
    async def give_up() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await Names().addresses("silent.example")

    before = threading.enumerate()
    asyncio.run(give_up())

    [thread] = [each for each in threading.enumerate() if each.name == "treadle-name" and each not in before]
    silent.release.set()
    thread.join(20)
    assert not thread.is_alive()
