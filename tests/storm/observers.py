"""Observers of the socket that keep all they are told, and at the end are held against what is."""

import asyncio
import json
import time
from collections import deque
from contextlib import suppress
from typing import Any

import httpx
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

from tests.clients import PLAIN
from tests.live.sockets import updated_in
from tests.storm.site import ROOM

State = tuple[str, int]
"""A task's status and version."""

TRANSPORT = (httpx.HTTPError, httpx.InvalidURL, OSError, WebSocketException, TimeoutError, json.JSONDecodeError)


def _check(item: dict[str, Any]) -> None:
    """Raise for a refusal: whoever was told that the database is away asks again, on another connection."""
    if "problem" in item:
        raise ConnectionRefusedError(item["problem"].get("detail"))


class Follower:
    """Follows each transition of one room; reads all anew when it is told to."""

    def __init__(self, urls: list[str], headers: dict[str, str]) -> None:
        self._urls = urls
        self._headers = headers
        self._since: dict[str, Any] | None = None
        self.states: dict[str, State] = {}
        self.reloads = 0
        self.backwards: list[str] = []
        """Tasks that were told in an older state than before."""

    async def run(self) -> None:
        """Follow for ever, at one server after the other."""
        turn = 0
        while True:
            url = self._urls[turn % len(self._urls)]
            with suppress(*TRANSPORT):
                socket = url.replace("http", "ws", 1) + "/v1/session"
                async with connect(socket, additional_headers=self._headers, max_size=None, ping_timeout=5) as opened:
                    await self._follow(opened, url)
            turn += 1
            await asyncio.sleep(0.1)

    async def _follow(self, socket: ClientConnection, url: str) -> None:
        hello = {"op": "hello", "n": 0, "protocol": 1}
        every = {"op": "every", "n": 1, "on": True, "room": ROOM, **({"since": self._since} if self._since else {})}
        await socket.send(json.dumps({"items": [hello, every]}))
        async for frame in socket:
            for item in json.loads(frame)["items"]:
                _check(item)
                await self._take(item, url)

    async def _take(self, item: dict[str, Any], url: str) -> None:
        if item.get("re") == 1 and self._since is None and "ok" in item:
            await self._read(url)
            self._since = item["ok"]
        elif item.get("push") == "reload":
            self.reloads += 1
            await self._read(url)
            self._since = {"stream": item["stream"], "seq": item["seq"]}
        elif item.get("push") == "events":
            self._since = {"stream": item["stream"], "seq": item["seq"]}
            for task in updated_in(item["events"]):
                self._note(task)

    def _note(self, task: dict[str, Any]) -> None:
        before = self.states.get(task["id"])
        # What was just read may be newer than what is told of the time before it.
        if before is None or before[1] <= task["version"]:
            self.states[task["id"]] = (task["status"], task["version"])

    async def _read(self, url: str) -> None:
        """Read all state; a part of the old one is never newer."""
        found: dict[str, State] = {}
        async with httpx.AsyncClient(base_url=url, headers=self._headers, timeout=10, verify=PLAIN) as client:
            cursor: dict[str, str] = {}
            while True:
                answer = await client.get(f"/v1/rooms/{ROOM}/tasks", params={"limit": 500, **cursor})
                page = answer.raise_for_status().json()
                found |= {one["id"]: (one["status"], one["version"]) for one in page["items"] if one["room_id"] == ROOM}
                if not page.get("next_cursor"):
                    break
                cursor = {"cursor": page["next_cursor"]}
        self.states = found


class Windowed:
    """Looks at the newest tasks of all, as a dashboard does."""

    LIMIT = 200

    def __init__(self, urls: list[str], headers: dict[str, str]) -> None:
        self._urls = urls
        self._headers = headers
        self._frame = -1
        self.states: dict[str, State] = {}
        self.told: deque[str] = deque(maxlen=20)
        """What befell it last, with the instants, for whoever asks why it knows nothing."""

    async def run(self) -> None:
        """Look for ever, at one server after the other."""
        turn = 1
        while True:
            url = self._urls[turn % len(self._urls)].replace("http", "ws", 1) + "/v1/session"
            try:
                async with connect(url, additional_headers=self._headers, max_size=None, ping_timeout=5) as socket:
                    self._note(f"opened {url}")
                    await self._look(socket)
                self._note("closed")
            except TRANSPORT as error:
                self._note(repr(error))
            turn += 1
            await asyncio.sleep(0.1)

    def _note(self, what: str) -> None:
        self.told.append(f"{time.monotonic():.1f} {what}")

    async def _look(self, socket: ClientConnection) -> None:
        hello = {"op": "hello", "n": 0, "protocol": 1}
        await socket.send(json.dumps({"items": [hello, self._wish(1)]}))
        async for frame in socket:
            for item in json.loads(frame)["items"]:
                _check(item)
                if not self._take(item):
                    await socket.send(json.dumps({"items": [self._wish(2)]}))

    def _wish(self, n: int) -> dict[str, Any]:
        window = {"order": "newest", "limit": self.LIMIT}
        return {"op": "watch", "n": n, "sub": "w", "topic": "tasks", "window": window}

    def _take(self, item: dict[str, Any]) -> bool:
        """Take what was pushed; return whether nothing was missed before it."""
        if item.get("push") == "snapshot":
            self._note(f"snapshot of {len(item['rows'])} rows")
            self.states = {}
        elif item.get("push") != "delta":
            return True
        elif item["prev"] != self._frame:
            self._note(f"frame {item['frame']} behind {self._frame}")
            return False
        self._frame = item["frame"]
        self.states |= {row["id"]: (row["status"], row["version"]) for row in item["rows"]}
        for name in item.get("gone", ()):
            self.states.pop(name, None)
        return True
