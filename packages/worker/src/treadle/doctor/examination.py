"""Runs checks concurrently, each with a time limit: one that hangs is reported, and delays no other."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from inspect import iscoroutinefunction
from typing import Any, cast

from treadle.errors import TreadleError
from treadle.system_threads import aside
from treadle.wire.amounts import in_seconds
from treadle.wire.findings import Check, Finding, Seen

LIMIT = 10.0
"""Seconds that a check may take, unless the command says otherwise."""


async def examine(checks: Sequence[Check], limit: float = LIMIT) -> list[Finding]:
    """Run the checks, and those that they lead to, concurrently; return their findings in the order of the checks.

    Each has `limit` seconds. One that takes longer, or raises, is a finding too: nothing is raised.
    """
    asyncio.get_running_loop().set_default_executor(Daemons())
    return await _made(checks, limit)


async def _made(checks: Sequence[Check], limit: float) -> list[Finding]:
    parts = await asyncio.gather(*(_looked(check, limit) for check in checks))
    return [finding for part in parts for finding in part]


async def _looked(check: Check, limit: float) -> list[Finding]:
    looking = asyncio.ensure_future(_look(check))
    await asyncio.wait([looking], timeout=limit)
    if not looking.done():
        looking.cancel()
        return [
            Finding(
                check.name, "warn", f"this check did not finish within {in_seconds(limit)}", "try again with a longer"
                " --timeout, or look for what delays it: a busy database, a disk or a network that does not answer",
            )
        ]  # fmt: skip
    try:
        seen = looking.result()
    except Exception as error:  # noqa: BLE001 - whatever a check raises is its finding
        # An error of the SDK explains itself, such as an invalid token, and is not a bug to report.
        if isinstance(error, TreadleError):
            return [Finding(check.name, "fail", f"this could not be checked ({error})", "fix what the message names")]
        said = f"{type(error).__name__}: {str(error).strip()}".removesuffix(": ")
        return [Finding(check.name, "fail", f"this could not be checked ({said})",
                        "fix what the message names; if it names nothing of yours, report a bug")]  # fmt: skip
    found = [one for one in seen if isinstance(one, Finding)]
    return found + await _made([one for one in seen if isinstance(one, Check)], limit)


async def _look(check: Check) -> Seen:
    if iscoroutinefunction(check.look):
        return await cast("Awaitable[Seen]", check.look())
    return cast("Seen", await asyncio.get_running_loop().run_in_executor(None, check.look))


class Daemons(ThreadPoolExecutor):
    """Runs each call in a daemon thread of its own, for which the process does not wait on exit.

    Accessing a disk that is gone, or resolving a name at a resolver that does not answer, can't be interrupted.
    """

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        """Call it now."""
        return aside(partial(fn, *args, **kwargs), name="treadle-doctor")

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002 - as above it
        """Return at once, whatever `wait` says, and cancel nothing: a check that hangs must not hold up the command."""
