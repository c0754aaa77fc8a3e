"""What clients do at a real server is written down, whichever of them does it, and the tables agree with it."""

import asyncio
from pathlib import Path

import pytest
from uuid_utils import uuid7

from tests.history.checker import check
from tests.history.journal import Journal
from tests.history.recorder import Recorded, of_client, of_socket
from tests.history.records import History, Said, marks_in
from tests.history.tables import read_tables
from tests.live.sockets import JOB, NAME, connected, ref
from treadle import Client
from treadle_server.testing import serve

pytestmark = pytest.mark.anyio


def item(n: int, **options: object) -> dict[str, object]:
    return {"id": str(uuid7()), "job": NAME, "payload": {"n": n}, **options}


async def test_a_client_and_a_socket_are_recorded_and_their_history_is_good(tmp_path: Path) -> None:
    said: list[Said] = []
    database = f"sqlite:///{tmp_path / 'treadle.db'}"
    async with serve(database, data_dir=tmp_path) as served, connected(served) as worker:
        await worker.call("open", worker={"concurrency": 1}, jobs=[JOB])
        async with Client(served.url, served.token) as client, connected(served) as other:
            sdk, socket = of_client("sdk", client, said), of_socket("socket", other, said)
            late, early = item(1, delay=60.0), item(2)
            await sdk.call("submit", room="lab", tasks=[late])
            await socket.call("submit", room="lab", tasks=[early])
            await sdk.call("edit", id=late["id"], priority=4)
            await socket.call("action", id=late["id"], action="cancel")
            assert (await sdk.call("action", id=late["id"], action="pause"))[0] == "refused"
            [claim] = await worker.claims(1)
            done = {**ref(claim), "kind": "completed", "starts": True, "result": {"n": 2}}
            await worker.call("reports", reports=[done])
            for one in (sdk, socket):
                await one.call("runs", id=early["id"])
                await one.call("get", id=late["id"])

    rows, runs = await read_tables(database)
    history = History(said=said, tasks=rows, runs=runs)

    assert [(one.client, one.op, one.answer) for one in said[:5]] == [
        ("sdk", "submit", "acknowledged"),
        ("socket", "submit", "acknowledged"),
        ("sdk", "edit", "acknowledged"),
        ("socket", "cancel", "acknowledged"),
        ("sdk", "pause", "refused"),
    ]
    assert all(one.answered is not None and one.sent < one.answered for one in said)
    # The code of this worker is no code: it has written nothing down.
    assert {violation.rule for violation in check(history)} == {"wrong-outcome"}


async def test_a_request_that_nobody_answers_is_unknown() -> None:
    said: list[Said] = []

    async def never(op: str, fields: dict[str, object]) -> object:
        await asyncio.Event().wait()

    asking = asyncio.create_task(Recorded("nobody", said, never).call("action", id="x", action="cancel"))  # type: ignore[arg-type]
    await asyncio.sleep(0)
    asking.cancel()
    await asyncio.wait([asking])

    assert [(one.op, one.answer, one.answered) for one in said] == [("cancel", "unknown", None)]


def test_a_journal_is_read_up_to_the_line_in_whose_midst_its_writer_died(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "journal"
    monkeypatch.setenv("TREADLE_TEST_JOURNAL", str(path))
    monkeypatch.setenv("TREADLE_TEST_NAME", "w1")
    for what in ("begin", "end"):
        Journal("id", 0, 7, "t").mark(what)
    with path.open("a") as file:
        file.write('["begin", "id", 1,')

    assert [(one.what, one.run, one.n, one.worker, one.target) for one in marks_in(path)] == [
        ("begin", 0, 7, "w1", "t"),
        ("end", 0, 7, "w1", "t"),
    ]
