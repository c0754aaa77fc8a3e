"""An encrypted task on the socket: sealed results go the fast way, and plain ones don't get in (F7)."""

from tests.live.conftest import Open
from tests.live.sockets import JOB, NAME, ref
from treadle.encryption import FernetCodec, Sealer, new_key
from treadle_server.testing import Served

SEALER = Sealer(FernetCodec(new_key()))


async def test_a_worker_on_the_socket_is_told_that_a_claim_is_encrypted_and_answers_sealed_alone_f7(
    served: Served, opened: Open
) -> None:
    worker, client = await opened(), await opened()
    job = {**JOB, "encrypted": True}
    await worker.call("open", worker={"name": "w", "concurrency": 2}, jobs=[job], prefetch=0)
    tasks = [
        {"job": NAME, "payload": payload} for payload in (SEALER.value({"n": 0}), {"n": 1}, SEALER.value({"n": 2}))
    ]

    taken = (await client.call("submit_each", room="lab", tasks=tasks))["tasks"]
    first, second = await worker.claims(2)
    starts = [{**ref(claim), "kind": "started"} for claim in (first, second)]
    plain = {**ref(first), "kind": "completed", "result": {"secret": 1}}
    sealed = {**ref(second), "kind": "completed", "result": SEALER.value({"n": 3})}
    answers = (await worker.call("reports", reports=[*starts, plain, sealed, sealed]))["answers"]
    kept = [await client.call("get", id=claim["id"]) for claim in (first, second)]

    assert [one.get("problem", {}).get("status") for one in taken] == [None, 422, None]
    assert [claim["encrypted"] for claim in (first, second)] == [True, True]
    assert [answer["status"] for answer in answers] == [200, 200, 422, 200, 200]
    assert answers[2]["detail"].startswith("result: the task is encrypted and this is not")
    assert [(task["status"], task["result"]) for task in kept] == [("running", None), ("completed", sealed["result"])]
    assert served.engine.fast_reports.knows(first["id"])
