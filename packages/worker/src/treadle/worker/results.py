"""Results that were too large together for a claim: read one by one with the run's credential, before its code runs."""

from typing import Any

from treadle.errors import ConnectionFailed, ProblemError
from treadle.tasks.dependencies import each, replaced
from treadle.tasks.endings import Ending
from treadle.worker.credentials import Credentials
from treadle.worker.lease import Held, log


async def read_results(credentials: Credentials, held: Held) -> Ending | None:
    """Put the results into the run's claim; return how the run ends when they can't be had: another one may."""
    if not held.claim.get("results_left_out"):
        return None
    try:
        held.claim = await with_results(held.claim, credentials.urls, await credentials.of(held))
    except (ConnectionFailed, ProblemError) as error:
        log.warning("task %s, run %s, has not got the results that it needs: %s", *held.key, error)
        return {"kind": "exception", "reason": "intermittent-task", "error": f"its results could not be read: {error}"}
    return None


async def with_results(claim: dict[str, Any], urls: tuple[str, ...], credential: str) -> dict[str, Any]:
    """Return a claim with the results that were too large for it. Raises `ConnectionFailed`, and a `ProblemError`."""
    if not claim.get("results_left_out"):
        return claim
    from treadle.transport.http import HttpChannel  # most workers never need it

    channel = HttpChannel(urls, credential, patience=30.0)
    found: dict[str, Any] = {}
    try:
        for one in each(claim):
            if one["id"] not in found:
                task = await channel.request("GET", f"/v1/tasks/{one['id']}")
                # One that is run again since the claim has no result, and is not completed any more.
                found[one["id"]] = {name: task.get(name) for name in ("status", "result", "error")}
    finally:
        await channel.close()
    return replaced(claim, lambda one: {**one, **found[one["id"]]})
