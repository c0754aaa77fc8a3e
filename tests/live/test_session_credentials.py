"""A task's code on the session socket, with the credential of its run (C9, G10)."""

from datetime import datetime

from tests.live.conftest import Open
from tests.live.sockets import JOB, Socket, ref, submit
from treadle_server.testing import Served


async def claimed(opened: Open, **options: object) -> tuple[Socket, dict[str, object], str]:
    """Return a worker, its claim, and a credential that it asked for."""
    worker, client = await opened(), await opened()
    await worker.call("open", worker={"name": "w"}, jobs=[JOB])
    await submit(client, 1, **options)
    [claim] = await worker.claims(1)
    answer = await worker.call("reclaim", **ref(claim))
    assert answer["taken_until"] >= claim["taken_until"]
    return worker, claim, answer["credentials"]


async def test_c9_claims_are_pushed_without_credentials_and_a_reclaim_gives_them(served: Served, opened: Open):
    _, claim, credentials = await claimed(opened, scopes=["queue:read:lab"])

    code = await opened(credentials)

    assert "credentials" not in claim
    who = await code.call("whoami")
    assert datetime.fromisoformat(who.pop("expires_at")) >= datetime.fromisoformat(claim["taken_until"]), (
        "with the lease, and a grace"
    )
    assert who == {
        "user": "admin",
        "superuser": False,
        "scopes": sorted([f"queue:claim-task:{claim['id']}/0", "queue:read:lab"]),
        "may_write": True,
    }


async def test_c9_on_the_socket_a_credential_reports_of_its_run_and_of_no_other(opened: Open):
    _, claim, credentials = await claimed(opened)
    client = await opened()
    [other] = await submit(client, 1)
    code = await opened(credentials)

    answers = await code.call(
        "reports",
        reports=[
            {**ref(claim), "kind": "started"},
            {**ref(claim), "kind": "checkpoint", "checkpoint": 5},
            {"task_id": other["id"], "run_id": 0, "kind": "started"},
        ],
    )

    assert [answer["status"] for answer in answers["answers"]][:2] == [200, 200]
    assert answers["answers"][2]["status"] in {403, 404, 409}
    assert (await client.call("get", id=other["id"]))["status"] == "pending"
    assert (await client.call("get", id=claim["id"]))["checkpoint"] == 5
    assert await code.refused("reclaim", task_id=other["id"], run_id=0) in {"forbidden", "task-not-found"}
    assert (await code.call("reclaim", **ref(claim)))["credentials"]


async def test_g10_on_the_socket_a_credential_is_no_worker_and_ends_with_its_run(opened: Open):
    worker, claim, credentials = await claimed(opened)
    code = await opened(credentials)
    assert await code.refused("open", worker={"name": "mine"}) == "forbidden"
    assert await code.refused("action", id=claim["id"], action="rerun") in {"forbidden", "task-not-found"}

    await worker.call("reports", reports=[{**ref(claim), "kind": "started"}, {**ref(claim), "kind": "completed"}])

    assert await code.refused("whoami") == "unauthorized"
    assert await code.refused("reclaim", **ref(claim)) == "stale-run"
