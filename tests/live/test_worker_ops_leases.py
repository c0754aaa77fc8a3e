"""Heartbeats on the socket: each lease is told as it was renewed, and those of busy workers wait for no others."""

import pytest

from tests.live.conftest import Open
from tests.live.sockets import JOB, ref, submit
from treadle.wire.workers import HeartbeatAnswer
from treadle_server.live.pace import Pace

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("kind", ["completed", "failed"])
async def test_a_beat_tells_the_lease_that_it_renewed_of_a_run_whose_end_is_in_the_same_frame(
    opened: Open, kind: str
) -> None:
    worker, client = await opened(), await opened()
    await worker.call("open", worker={"concurrency": 1}, jobs=[{**JOB, "max_retries": 1, "retry_base": 0}], prefetch=0)
    await submit(client, 1)
    [claim] = await worker.claims(1)
    end = {**ref(claim), "kind": kind, "starts": True, **({"error": "no"} if kind == "failed" else {})}

    beat, _ = await worker.send({"op": "beat", "tasks": [ref(claim)]}, {"op": "reports", "reports": [end]})
    answer = HeartbeatAnswer.model_validate((await beat)["ok"])

    [lease] = answer.taken_until
    assert (lease.task_id, lease.run_id) == (claim["id"], 0)
    assert lease.seconds_left > 50


async def test_a_beat_that_renews_nothing_waits_for_others_only_if_its_worker_holds_nothing(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker whose beat is late is given nothing, and of short tasks each beat of a busy one may be such."""
    waited: list[Pace] = []

    async def turn(pace: Pace) -> None:
        waited.append(pace)

    monkeypatch.setattr(Pace, "turn", turn)
    worker, client = await opened(), await opened()
    await worker.call("open", worker={"concurrency": 1}, jobs=[JOB], prefetch=0)
    await worker.call("beat", tasks=[])
    await submit(client, 1)
    [claim] = await worker.claims(1)
    assert len(waited) == 1

    await worker.call("beat", tasks=[])
    assert len(waited) == 1, f"it has {claim['id']}"
