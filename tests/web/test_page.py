"""`treadle watch --web` in a real Chromium: what stands in the page, that keys arrive, and that nothing else is asked.

Needs Chromium. `nox -s web` runs it; the default run leaves it out.
"""

import re
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

import psutil
import pytest
from aiohttp.web import AppRunner, TCPSite

from tests.chaos.processes import Process, free_port, stopped_at_the_end
from tests.waiting import until
from treadle import Client
from treadle_server.testing import Served, serve
from treadle_tui import web
from treadle_tui.web import WatchServer

from .browser import Page, open_page
from .jobs import rotate

pytestmark = pytest.mark.web

TASKS = 30
ROTATE = "@global:modifiers:rotate"


@pytest.fixture
def chromium() -> str:
    """The browser's command."""
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    assert found is not None, "there is no Chromium here: nox -s web installs Debian's"
    return found


@pytest.fixture
def directory() -> Iterator[Path]:
    # The browser writes to its profile until its last process is gone.
    with TemporaryDirectory(prefix="treadle-", ignore_cleanup_errors=True) as directory:
        yield Path(directory)


@asynccontextmanager
async def a_server_with_tasks() -> AsyncIterator[tuple[Served, Client]]:
    async with serve() as served, Client(served.url, served.token) as client:
        await client.submit_many([rotate.bind(angle=angle) for angle in range(TASKS)])
        yield served, client


IN_HASTE = """
const slowly = window.setInterval;
window.setInterval = (act, pause) => slowly(act, pause / 20);
"""
"""Has the page ask twenty times as often whether its socket still lives."""


async def says_that_it_ended(page: Page) -> bool:
    told = await page.call("Runtime.evaluate", expression="document.body.classList.contains('-closed')")
    return bool(told["result"]["value"])


class Web(Process):
    """`treadle watch --web`."""

    def __init__(self, served: Served, directory: Path) -> None:
        self.port = free_port()
        environment = {
            "TREADLE_URL": served.url,
            "TREADLE_TOKEN": served.token,
            "XDG_CONFIG_HOME": str(directory),
        }
        super().__init__(["watch", "--web", "--port", str(self.port)], directory / "web.log", environment)

    async def address(self) -> str:
        """Wait until it says where it is, and return that."""
        await until(lambda: self.has_ended or "http://" in self.log.read_text())
        assert not self.has_ended, self.log.read_text()
        return re.findall(r"http://\S+", self.log.read_text())[0]

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        """Have it do nothing for the block."""
        assert self._process is not None
        process = psutil.Process(self._process.pid)
        process.suspend()
        try:
            yield
        finally:
            process.resume()

    def dashboards(self) -> list[psutil.Process]:
        """Return the processes that it has started."""
        assert self._process is not None
        return psutil.Process(self._process.pid).children(recursive=True)


@asynccontextmanager
async def opened(served: Served, chromium: str, directory: Path) -> AsyncIterator[tuple[Web, Page]]:
    """The dashboard, up in a page."""
    web = Web(served, directory)
    web.start()
    with stopped_at_the_end(web):
        address = await web.address()
        async with open_page(chromium, directory) as page:
            await page.go(address)
            await page.until_it_says("● live", ROTATE, '{"angle": 0}')
            yield web, page


async def test_the_page_shows_the_dashboard_and_a_key_pressed_in_it_arrives(chromium: str, directory: Path) -> None:
    async with a_server_with_tasks() as (served, client), opened(served, chromium, directory) as (_, page):
        shown = await page.until_it_says(f"of {TASKS}")
        assert "┌─ 1 Queues ─" in shown

        # Nobody clicks into the page first: it has the focus by itself.
        await page.press("2")
        await page.until_it_says("space mark")
        await page.press("p")
        await page.until_it_says("paused 1 task", "‖ paused")
        assert (await client.stats()).counts == {"pending": TASKS - 1, "paused": 1}

        await page.press("u")
        await page.until_it_says("undone")
        assert (await client.stats()).counts == {"pending": TASKS}

        await page.press("Enter")
        await page.until_it_says("created", "Payload")
        await page.press("Escape")
        await page.until_it_says("1 Queues", "2 Tasks")


async def test_the_page_asks_no_other_host_for_anything(chromium: str, directory: Path) -> None:
    async with a_server_with_tasks() as (served, _), opened(served, chromium, directory) as (web, page):
        hosts = {urlsplit(address).netloc for address in page.asked if not address.startswith("data:")}

        assert hosts == {f"127.0.0.1:{web.port}"}


async def test_a_page_that_is_closed_leaves_no_dashboard_running(chromium: str, directory: Path) -> None:
    async with a_server_with_tasks() as (served, _), opened(served, chromium, directory) as (web, page):
        assert web.dashboards()

        await page.close()

        await until(lambda: not web.dashboards())


async def test_a_page_that_nobody_answers_any_more_says_so(chromium: str, directory: Path) -> None:
    """As where the network is cut: the last screen stood there for hours as if it were live."""
    async with a_server_with_tasks() as (served, _), opened(served, chromium, directory) as (web, page):
        await page.call("Page.addScriptToEvaluateOnNewDocument", source=IN_HASTE)
        await page.call("Page.reload")
        await page.until_it_says("● live", ROTATE)

        with web.standing_still():
            await until(lambda: says_that_it_ended(page))


async def test_a_page_without_a_place_keeps_saying_so(
    chromium: str, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web, "PATIENCE_SECONDS", 0)
    server = WatchServer(["true"], host="127.0.0.1", port=(port := free_port()), most_pages=0)
    runner = AppRunner(await server._make_app())
    await runner.setup()
    await TCPSite(runner, "127.0.0.1", port).start()
    async with open_page(chromium, directory) as page:
        await page.call("Page.addScriptToEvaluateOnNewDocument", source=IN_HASTE)
        await page.go(server.address)
        await page.until_it_says("0 pages with a dashboard are open here already", "then reload this page")
        await until(lambda: page.received > 3)

        assert not await says_that_it_ended(page)
    await runner.cleanup()
