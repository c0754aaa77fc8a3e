"""A server that keeps the times of its writer: `python -m tests.bench.traced FD server …`; `tests.bench.turns` runs it.

While a statement of the writer is under way the database works, or syncs, and the server may compute or stand still.
Which of them did, and for how long, goes to the file that `TRACE` names whenever the process gets SIGUSR1.
"""

import json
import os
import signal
import sys
from collections import Counter, defaultdict, deque
from collections.abc import Awaitable, Callable
from functools import wraps
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import asyncpg

from treadle_bench import die_with_parent
from treadle_server.engine.engine import Engine

TRACE = "TREADLE_TRACE_FILE"
"""The environment variable that names the file."""

KEPT = 4096
"""Batches whose marks are kept."""


class Marks:
    """The sums since the last look, and the last batches' marks."""

    def __init__(self) -> None:
        self.under_way: Counter[str] = Counter()
        self.phase = "nothing to do"
        """What the writer does when nothing is under way."""
        self.clear()

    def clear(self) -> None:
        """Begin anew."""
        self.began = self._since = perf_counter()
        self._cpu = process_time()
        self.wall: defaultdict[str, float] = defaultdict(float)
        """By what was under way at the database."""
        self.busy: defaultdict[str, float] = defaultdict(float)
        """The processor time that the server took meanwhile."""
        self.spans: defaultdict[str, list[float]] = defaultdict(list)
        """From the sending of each kind of statement to its answer."""
        self.batches: deque[int] = deque(maxlen=KEPT)

    def turn(self) -> None:
        """Put what has passed to what was under way."""
        at, cpu = perf_counter(), process_time()
        state = "+".join(sorted(self.under_way.elements())) or f"nothing, {self.phase}"
        self.wall[state] += at - self._since
        self.busy[state] += cpu - self._cpu
        self._since, self._cpu = at, cpu

    async def pass_through(self, kind: str, asked: Awaitable[Any]) -> Any:
        """Wait for an answer of the database, and note how long that took."""
        self.turn()
        self.under_way[kind] += 1
        began = self._since
        try:
            return await asked
        finally:
            self.turn()
            self.under_way[kind] -= 1
            self.spans[kind].append(self._since - began)

    def told(self) -> dict[str, Any]:
        """Return everything in milliseconds, and begin anew."""
        self.turn()
        found = {
            "wall": (self._since - self.began) * 1e3,
            "states": {name: (self.wall[name] * 1e3, self.busy[name] * 1e3) for name in self.wall},
            "spans": {name: (len(took), sum(took) * 1e3) for name, took in self.spans.items()},
            "batches": list(self.batches),
        }
        self.clear()
        return found


def kind_of(statement: str) -> str:
    """Return which of the writer's statements it is."""
    if "BEGIN" in statement[:8]:
        return "BEGIN"
    if statement.endswith(("COMMIT", "ROLLBACK")):
        return statement.rpartition(";")[2]
    for name, sign in (("turn", "claimed AS"), ("complete", "moved AS"), ("claim", "SET status = 'claimed'")):
        if sign in statement:
            return name
    for name, sign in (("start", "SET status = 'running'"), ("insert", "INSERT INTO tasks"), ("heads", "LATERAL")):
        if sign in statement:
            return name
    return "other"


def traced(marks: Marks, function: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """Return the driver's function with marks around it."""

    @wraps(function)
    async def wrapped(self: Any, statement: str, *args: Any, **more: Any) -> Any:
        return await marks.pass_through(kind_of(statement), function(self, statement, *args, **more))

    return wrapped


def main() -> None:
    """Run the server with marks."""
    marks = Marks()
    for name in ("execute", "fetch"):
        setattr(asyncpg.Connection, name, traced(marks, getattr(asyncpg.Connection, name)))
    take = Engine._take

    def taken(engine: Engine, *kinds: Any) -> Any:
        batch = take(engine, *kinds)
        marks.batches.append(sum(pending.command.rows for pending in batch))
        return batch

    Engine._take = taken  # type: ignore[method-assign]
    commit = Engine._commit
    open_batches = 0

    async def committed(engine: Engine, batch: Any, **more: Any) -> Any:
        nonlocal open_batches
        marks.turn()
        open_batches += 1
        marks.phase = "a batch"
        try:
            return await commit(engine, batch, **more)
        finally:
            marks.turn()
            open_batches -= 1
            if not open_batches:
                marks.phase = "nothing to do"

    Engine._commit = committed  # type: ignore[method-assign]

    def tell(*_: object) -> None:
        file = Path(os.environ[TRACE])
        file.with_suffix(".new").write_text(json.dumps(marks.told()))
        file.with_suffix(".new").rename(file)

    signal.signal(signal.SIGUSR1, tell)
    sys.argv[0] = die_with_parent.__file__
    die_with_parent.main()


if __name__ == "__main__":
    main()
