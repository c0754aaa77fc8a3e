"""No test sleeps: it waits for what it wants to see, by `tests.waiting` where nothing tells of it."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]

NO_TIME = {"services/test_base.py", "services/test_base_turns.py", "worker/transport/test_session_return.py"}
"""Where time is not the machine's, so that a sleep takes none (`tests/timeless.py`)."""

REASONS = {
    "internal/jobs.py": "code that runs for long, and is stopped in its midst",
    "internal/test_bridge_local.py": "code that another would overlap, were they let run at once",
    "operations/heavy.py": "what is measured is how late the loop wakes it",
    "servers/test_cut.py": "users who try again, for as long as connections are cut",
    "servers/test_failover.py": "users who try again, for as long as a primary is down",
    "worker/test_promises.py": "code that blocks its loop for longer than its lease",
    "worker/worker/test_worker_taking.py": "code that another would overlap, were they let run at once",
}
"""What sleeps for a while of the machine's time all the same, and why."""

PROGRAMS = {"bench", "chaos", "simulation", "storm", "versions"}
"""Folders of programs that load, cut and kill for as long as they are told to; a simulation's time takes none."""


def sleeps_in(source: str) -> bool:
    """Whether a module sleeps for a while that it says in numbers; `sleep(0)` lets others go on."""
    return "sleep(" in source and any(
        isinstance(node, ast.Call)
        and ast.unparse(node.func) in {"asyncio.sleep", "time.sleep", "sleep"}
        and node.args
        and any(isinstance(one, ast.Constant) and one.value for one in ast.walk(node.args[0]))
        for node in ast.walk(ast.parse(source))
    )


def test_no_test_sleeps_but_where_a_reason_is_written() -> None:
    tests = ROOT / "tests"
    paths = (path for path in tests.rglob("*.py") if path.relative_to(tests).parts[0] not in PROGRAMS)

    sleeping = {str(path.relative_to(tests)) for path in paths if sleeps_in(path.read_text())}

    assert sleeping == REASONS.keys() | NO_TIME


def test_a_sleep_is_found_and_a_turn_of_the_loop_is_none() -> None:
    assert sleeps_in("time.sleep(0.1 * (n + 1))")
    assert sleeps_in("async def wait():\n    await asyncio.sleep(2)")
    assert not sleeps_in("asyncio.sleep(0)")
    assert not sleeps_in("await_for.sleep(3)")
