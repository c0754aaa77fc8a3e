"""One conversation on the socket, word for word, and the shapes of what is answered to worker, client and observer.

`python -m tests.golden.dialogue URL TOKEN FILE` has it with a server and writes the shapes down: done once with a
server of each released version. An answer's shape has the names of its members and the kinds of their values; of
problems also what they are.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

HERE = Path(__file__).parent / "frames"
PATIENCE = 60.0

JOB = {"room": "lab", "category": "tasks", "name": "add", "schema": {"type": "object"}, "retain": True}
NAME = "lab:tasks:add"
NOBODY = "0199a5b4-0000-7000-8000-00000000000f"

Script = list[tuple[str, dict[str, Any], tuple[str, ...]]]

SCRIPT: Script = [
    ("hello", {"protocol": 1}, ()),
    ("whoami", {}, ()),
    ("ping", {}, ()),
    ("register", JOB, ()),
    ("every", {"on": True, "room": "lab"}, ()),
    ("watch", {"sub": "c", "topic": "counts"}, ("snapshot",)),
    ("watch", {"sub": "t", "topic": "tasks", "window": {"order": "newest", "limit": 5}}, ("snapshot",)),
    ("submit", {"room": "lab", "tasks": [{"job": NAME, "payload": {"n": 1}}], "wait": True}, ("events", "delta")),
    ("submit_each", {"room": "lab", "tasks": [{"job": NAME, "payload": {}}, {"job": "lab:tasks:none"}]}, ()),
    ("get", {"id": "$task"}, ()),
    ("open", {"worker": {"name": "w", "concurrency": 2}, "jobs": [JOB], "prefetch": 0}, ("claim",)),
    ("beat", {"tasks": [{"task_id": "$task", "run_id": 0}]}, ()),
    ("reclaim", {"task_id": "$task", "run_id": 0}, ()),
    (
        "reports",
        {
            "reports": [
                {"task_id": "$task", "run_id": 0, "kind": "started"},
                {"task_id": "$task", "run_id": 0, "kind": "progress", "share": 0.5, "message": "half"},
                {"task_id": "$task", "run_id": 0, "kind": "checkpoint", "checkpoint": {"k": 1}},
                {"task_id": "$task", "run_id": 0, "kind": "logs", "lines": [{"message": "a line"}]},
                {"task_id": "$task", "run_id": 0, "kind": "completed", "result": {"a": 1}, "usage": 1.5},
                {"task_id": NOBODY, "run_id": 0, "kind": "started"},
            ]
        },
        ("result",),
    ),
    ("runs", {"id": "$task"}, ()),
    ("logs", {"id": "$task"}, ()),
    ("history", {"id": "$task"}, ()),
    ("freeze", {"filter": {"job": NAME}}, ()),
    ("action", {"id": "$task", "action": "rerun"}, ()),
    ("action", {"id": "$task", "action": "cancel"}, ("cancel",)),
    ("actions", {"action": "cancel", "ids": ["$task", NOBODY]}, ()),
    ("edits", {"edits": [{"id": "$task", "priority": 1}]}, ()),
    ("job", {"job": NAME, "paused": True}, ()),
    ("get", {"id": NOBODY}, ()),
    ("edit", {"id": "$task", "priority": 1}, ()),
    ("submit", {"room": "lab", "tasks": [{"job": "lab:tasks:none"}]}, ()),
    ("schedule", {"room": "lab", "name": "none", "action": "pause"}, ()),
    ("unwatch", {"sub": "c"}, ()),
    ("close", {}, ()),
    ("nothing", {}, ()),
]
"""Requests, in turn, and what is pushed after each; `$task` is the id of the first task."""

Shape = Any


def shape(value: Any) -> Shape:
    """Return the names of members and the kinds of values; of a list the shape of its first item."""
    match value:
        case dict():
            return {name: shape(one) for name, one in sorted(value.items())}
        case list():
            return [shape(value[0])] if value else []
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "text"
    return None


async def converse(url: str, token: str) -> dict[str, Shape]:
    """Have the conversation; return the shape of each answer and push, in order."""
    told: dict[str, Shape] = {}
    socket_url = url.replace("http", "ws", 1) + "/v1/session"
    async with asyncio.timeout(PATIENCE):
        async with connect(socket_url, additional_headers={"Authorization": f"Bearer {token}"}) as socket:
            task = ""
            for n, (op, fields, pushes) in enumerate(SCRIPT):
                sent = json.dumps({"items": [{"op": op, "n": n, **fields}]}).replace("$task", task)
                await socket.send(sent)
                answer = await _hear(socket, n, {f"{n:02} {op}, then {kind}": kind for kind in pushes}, told)
                told[f"{n:02} {op}"] = _shown(answer)
                if op == "submit" and not task:
                    task = answer["ok"]["tasks"][0]["id"]
    return dict(sorted(told.items()))


def _shown(answer: dict[str, Any]) -> Shape:
    if "problem" in answer:
        kept = {name: answer["problem"][name] for name in ("type", "status")}
        return {"problem": {**shape(answer["problem"]), **kept}}
    return {"ok": shape(answer["ok"])}


async def _hear(socket: ClientConnection, n: int, wanted: dict[str, str], told: dict[str, Shape]) -> dict[str, Any]:
    """Read until the request is answered and everything that is wanted was pushed."""
    answer: dict[str, Any] | None = None
    while answer is None or wanted:
        for item in json.loads(await socket.recv())["items"]:
            if item.get("re") == n:
                answer = item
            # Two windows change by one commit, and nobody promises which is told of first.
            is_other = item.get("push") == "delta" and item["topic"] != "counts"
            for name in [name for name, kind in wanted.items() if item.get("push") == kind and not is_other]:
                told[name] = shape(item)
                del wanted[name]
    return answer


def lost(now: Shape, then: Shape, place: str = "") -> list[str]:
    """Return in which places something is missing or of another kind that was there then; null and [] say nothing."""
    if then in (None, []) or now in (None, []):
        return []
    if isinstance(then, dict) and isinstance(now, dict):
        gone = [f"{place}.{name}: is left out" for name in then if name not in now]
        return gone + [one for name in then if name in now for one in lost(now[name], then[name], f"{place}.{name}")]
    if isinstance(then, list) and isinstance(now, list):
        return lost(now[0], then[0], f"{place}[]")
    return [] if now == then else [f"{place}: {then!r} became {now!r}"]


if __name__ == "__main__":
    found = asyncio.run(converse(sys.argv[1], sys.argv[2]))
    Path(sys.argv[3]).write_text(json.dumps(found, indent=1) + "\n")
