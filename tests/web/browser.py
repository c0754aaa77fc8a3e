"""A headless Chromium, driven by the DevTools protocol: what stands in the page's terminal, and keys to press in it."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import httpx
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from tests import waiting

FLAGS = (
    "--headless=new",
    "--no-sandbox",  # root has none; the page is ours
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--no-first-run",
    "--window-size=1280,800",
    "--remote-debugging-port=0",
)

CATCH_TERMINALS = """
window.terminals = [];
Object.defineProperty(Object.prototype, "_core", {
  configurable: true,
  set(core) {
    Object.defineProperty(this, "_core", {value: core, writable: true, configurable: true});
    if (typeof this.loadAddon === "function") window.terminals.push(this);
  },
});
"""
"""Keeps each terminal that xterm.js makes: it draws on a canvas, and its text stands in its buffer alone."""

READ_SCREEN = """
(() => {
  const buffer = window.terminals[0]?.buffer.active;
  if (!buffer) return "";
  const lines = [];
  for (let y = 0; y < window.terminals[0].rows; y++)
    lines.push(buffer.getLine(buffer.baseY + y)?.translateToString(true) ?? "");
  return lines.join("\\n");
})()
"""

READ_PAGE = "`${location.href}, ${document.readyState}: ${document.body?.innerText.slice(0, 500)}`"
"""What stands in the page where no terminal does: a refusal, or the browser's own word that it did not get there."""

KEYS = {"Enter": (13, "\r"), "Escape": (27, ""), "ArrowDown": (40, "")}
"""What Chromium wants to know of keys that type no character: code and text."""


class Page:
    """A tab, the addresses that it asked for, how many frames came to its sockets, and what went wrong in it."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._numbers = count(1)
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self.asked: list[str] = []
        self.received = 0
        self._wrong: list[str] = []

    async def listen(self) -> None:
        """Take what the browser sends, until the tab is closed: it says no goodbye then."""
        with suppress(ConnectionClosed):
            async for message in self._socket:
                self._take(json.loads(message))

    def _take(self, item: dict[str, Any]) -> None:
        if "id" in item:
            self._answers.pop(item["id"]).set_result(item)
        elif item["method"] == "Network.requestWillBeSent":
            self.asked.append(item["params"]["request"]["url"])
        elif item["method"] == "Network.webSocketCreated":
            self.asked.append(item["params"]["url"])
        elif item["method"] == "Network.webSocketFrameReceived":
            self.received += 1
        elif item["method"] in ("Network.loadingFailed", "Runtime.exceptionThrown"):
            self._wrong.append(json.dumps(item["params"]))

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Give the browser a command, and return its answer; raises `RuntimeError` with what it complains of."""
        number = next(self._numbers)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        await self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        item = await answer
        if "error" in item:
            raise RuntimeError(f"{method}: {item['error']}")
        result: dict[str, Any] = item["result"]
        return result

    async def go(self, url: str) -> None:
        """Open an address; raises `RuntimeError` where the browser can't."""
        await self.call("Page.enable")
        await self.call("Runtime.enable")
        # Without it keys go nowhere: a headless window has no focus by itself.
        await self.call("Emulation.setFocusEmulationEnabled", enabled=True)
        await self.call("Page.addScriptToEvaluateOnNewDocument", source=CATCH_TERMINALS)
        await self.call("Network.enable")
        went = await self.call("Page.navigate", url=url)
        if "errorText" in went:
            raise RuntimeError(f"{url}: {went['errorText']}")

    async def close(self) -> None:
        """Close the tab, as its cross does."""
        await self.call("Page.close")

    async def screen(self) -> str:
        """Return what stands in the page's terminal now."""
        answer = await self.call("Runtime.evaluate", expression=READ_SCREEN, returnByValue=True)
        return str(answer["result"].get("value", ""))

    async def until(self, shows: Callable[[str], object]) -> str:
        """Wait until the terminal shows something, and return it; raises `AssertionError` with what is there."""
        screen = ""

        async def look() -> str:
            nonlocal screen
            screen = await self.screen()
            return screen

        try:
            return await waiting.until(look, shows, pause=0.05)
        except TimeoutError:
            where = (await self.call("Runtime.evaluate", expression=READ_PAGE, returnByValue=True))["result"]
            raise AssertionError(
                f"after {waiting.SECONDS:.0f} s the page still shows:\n{screen}\n{where.get('value')}\n"
                + "\n".join((*self.asked, *self._wrong))
            ) from None

    async def until_it_says(self, *words: str) -> str:
        """Wait until all of these stand in the terminal."""
        return await self.until(lambda screen: all(word in screen for word in words))

    async def press(self, *keys: str) -> None:
        """Press keys, as DOM events name them: Enter, Escape, or the character."""
        for key in keys:
            code, text = KEYS.get(key, (ord(key.upper()[0]), key))
            named: dict[str, Any] = {"key": key, "windowsVirtualKeyCode": code}
            await self.call("Input.dispatchKeyEvent", type="keyDown", **named, **({"text": text} if text else {}))
            await self.call("Input.dispatchKeyEvent", type="keyUp", **named)


@asynccontextmanager
async def open_page(program: str, directory: Path) -> AsyncIterator[Page]:
    """Open an empty tab in a browser of its own for the block; its profile and log go to `directory`."""
    with (directory / "browser.log").open("wb") as log:
        browser = await asyncio.create_subprocess_exec(
            program, *FLAGS, f"--user-data-dir={directory}", "about:blank", stdout=log, stderr=log
        )
    try:
        async with asyncio.timeout(waiting.SECONDS):
            url = await _tab(browser, directory)
        async with connect(url, max_size=None) as socket, asyncio.TaskGroup() as group:
            page = Page(socket)
            listening = group.create_task(page.listen())
            yield page
            listening.cancel()
    finally:
        # It may have ended by itself, as one that crashed has.
        if browser.returncode is None:
            browser.terminate()
        async with asyncio.timeout(waiting.SECONDS):
            await browser.wait()


async def _tab(browser: asyncio.subprocess.Process, directory: Path) -> str:
    """Return the address of the DevTools of a new tab, once the browser is up.

    The first tab would do as well, but the browser may still be on its way to the address that it was started with,
    and take the tab back there.
    """
    said = directory / "DevToolsActivePort"
    await waiting.until(lambda: (said.exists() and said.read_text().count("\n")) or browser.returncode is not None)
    if browser.returncode is not None:
        raise RuntimeError(f"the browser did not start: {(directory / 'browser.log').read_text()[-2000:]}")
    port = said.read_text().split()[0]
    # It answers late while it starts on a busy machine; the caller ends the wait.
    async with httpx.AsyncClient(timeout=None) as http:
        tab = (await http.put(f"http://127.0.0.1:{port}/json/new?about:blank")).json()
        return str(tab["webSocketDebuggerUrl"])
