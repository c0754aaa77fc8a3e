"""Schemas whose check branches without end, and what watches the loop meanwhile."""

import asyncio
import gc
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any


def union(*, has_kinds: bool = False) -> dict[str, Any]:
    """Return what pydantic makes of `Node = Leaf | Seq | Par`, the two with `list[Node]`."""

    def parent(kind: str) -> dict[str, Any]:
        properties: dict[str, Any] = {"children": {"type": "array", "items": {"$ref": "#/$defs/Node"}}}
        if has_kinds:
            properties = {"kind": {"const": kind, "type": "string"}, **properties}
        return {"type": "object", "properties": properties, "required": list(properties)}

    leaf = {"type": "object", "properties": {"value": {"type": "integer"}}, "required": ["value"]}
    kinds = [{"$ref": f"#/$defs/{name}"} for name in ("Leaf", "Seq", "Par")]
    return {
        "type": "object",
        "properties": {"root": {"$ref": "#/$defs/Node"}},
        "required": ["root"],
        "$defs": {"Node": {"anyOf": kinds}, "Leaf": leaf, "Seq": parent("seq"), "Par": parent("par")},
    }


def tree(depth: int, value: object = "wrong", **more: object) -> dict[str, Any]:
    """Return a payload for `union` with one leaf, `depth` parents deep."""
    node: dict[str, Any] = {"value": value}
    for _ in range(depth):
        node = {**more, "children": [node]}
    return {"root": node}


def twice(depth: int, last: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return a schema whose definitions each refer twice to the next."""
    definitions: dict[str, Any] = {
        f"d{i}": {"anyOf": [{"$ref": f"#/$defs/d{i + 1}"}, {"$ref": f"#/$defs/d{i + 1}"}]} for i in range(depth)
    }
    definitions[f"d{depth}"] = last or {"type": "integer"}
    return {"properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": definitions}


class Gap:
    """How long the loop's thread worked at most between two turns of one that wants every turn."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.turns = 0


@asynccontextmanager
async def watched() -> AsyncIterator[Gap]:
    """Watch the loop, which is the server's, too: in time of its own thread, whatever else the machine does."""
    gap = Gap()

    async def watch() -> None:
        last = time.thread_time()
        while True:
            await asyncio.sleep(0.001)
            now = time.thread_time()
            gap.seconds, last = max(gap.seconds, now - last), now
            gap.turns += 1

    # A collection of all that a thousand tests have left takes half a second, and is no doing of the server's.
    gc.freeze()
    watching = asyncio.create_task(watch())
    try:
        yield gap
    finally:
        gc.unfreeze()
        watching.cancel()
        await asyncio.wait({watching})
    assert gap.seconds < 0.5, f"the loop was held for {gap.seconds:.2f} s"
