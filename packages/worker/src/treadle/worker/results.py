"""Dependencies' results that are too large together for a claim: read one by one, with the run's credential."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from treadle.errors import ConnectionFailed, ProblemError
from treadle.tasks.dependencies import each, replaced
from treadle.tasks.endings import Ending
from treadle.worker.credentials import Credentials
from treadle.worker.lease import Held, log
from treadle.worker.stopping import stopped

if TYPE_CHECKING:
    import httpx

    from treadle.transport.bearer import TokenSource

AT_ONCE = 8
"""How many results are requested at the same time: a task may wait for 100,000."""


async def read_results(credentials: Credentials, held: Held) -> Ending | None:
    """Add the results to the run's claim; return how the run ends if they can't be read, or if it is to stop.

    The lease may have been renewed meanwhile, so each request sends the credential that is valid at the time.
    """
    try:
        held.claim = await with_results(
            held.claim,
            credentials.urls,
            lambda: credentials.of(held),
            transport=credentials.transport,
            is_wanted=lambda: held.stop is None,
        )
    except (ConnectionFailed, ProblemError) as error:
        log.warning("task %s, run %s, could not read the results that it needs: %s", *held.key, error)
        return {
            "kind": "exception",
            "reason": "intermittent-task",
            "error": f"the results that it needs could not be read: {error}",
        }
    return None if held.stop is None else stopped(held, None, None)


async def with_results(
    claim: dict[str, Any],
    urls: tuple[str, ...],
    credential: "TokenSource",
    *,
    transport: "httpx.AsyncBaseTransport | None" = None,
    is_wanted: Callable[[], bool] = lambda: True,
) -> dict[str, Any]:
    """Return a claim with the results that were too large for it, or unchanged once `is_wanted` is false.

    Raises `ConnectionFailed`, and a `ProblemError`.
    """
    if not claim.get("results_left_out"):
        return claim
    from treadle.transport.http import HttpChannel  # most workers never need it

    channel = HttpChannel(urls, credential, patience=30.0, transport=transport)
    left = {one["id"] for one in each(claim)}
    found: dict[str, Any] = {}

    async def read() -> None:
        while left and is_wanted():
            needed = left.pop()
            task = await channel.request("GET", f"/v1/tasks/{needed}")
            # A task that was rerun since the claim has no result, and is not completed any more.
            found[needed] = {name: task.get(name) for name in ("status", "result", "error")}

    try:
        await asyncio.gather(*(read() for _ in range(AT_ONCE)))
    finally:
        await channel.close()
    return replaced(claim, lambda one: {**one, **found[one["id"]]}) if is_wanted() else claim
