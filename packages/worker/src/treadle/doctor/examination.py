"""Makes checks side by side, each with an end: whatever hangs is found to hang, and holds nothing up."""

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
    """Make the checks, and those that they lead to, side by side; return what they found in the order of the checks.

    Each has `limit` seconds. One that takes longer, or breaks, is a finding too: nothing is raised.
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
                check.name, "warn", f"this was not seen within {in_seconds(limit)}", "look again with a longer"
                " --timeout, or at what keeps it: a busy database, a disk or a network that does not answer",
            )
        ]  # fmt: skip
    try:
        seen = looking.result()
    except Exception as error:  # noqa: BLE001 - whatever breaks a check is what it has found
        # What the SDK raises says by itself what it is, and is nothing to report: a token that is not valid.
        if isinstance(error, TreadleError):
            return [Finding(check.name, "fail", f"this could not be looked at ({error})", "mend what it says")]
        said = f"{type(error).__name__}: {str(error).strip()}".removesuffix(": ")
        return [Finding(check.name, "fail", f"this could not be looked at ({said})",
                        "mend what it says; if it says nothing of yours, report it")]  # fmt: skip
    found = [one for one in seen if isinstance(one, Finding)]
    return found + await _made([one for one in seen if isinstance(one, Check)], limit)


async def _look(check: Check) -> Seen:
    if iscoroutinefunction(check.look):
        return await cast("Awaitable[Seen]", check.look())
    return cast("Seen", await asyncio.get_running_loop().run_in_executor(None, check.look))


class Daemons(ThreadPoolExecutor):
    """Runs each call in a thread of its own that the process does not wait for when it ends.

    A look at a disk that is gone, or for a name at a resolver that does not answer, can't be broken off.
    """

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        """Call it now."""
        return aside(partial(fn, *args, **kwargs), name="treadle-doctor")

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002 - as above it
        """Wait for nobody, whatever `wait` says, and cancel nothing: a look that hangs must not hold the command."""
