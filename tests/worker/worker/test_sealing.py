"""What an encrypted task is given and comes to is plain to its code and its submitter, and to nobody between (F7)."""

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from tests.chaos.processes import running_server
from tests.worker.conftest import working_at
from tests.worker.vaults import (
    SECRET,
    keys_in_a_child,
    whisper,
    whisper_in_process,
    whisper_in_steps,
    whisper_in_thread,
)
from treadle import Client, Context, Every, Limit, Options, Pause, TaskFailed, Worker, task
from treadle.client import bulk_sealing
from treadle.encryption import FernetCodec, Sealer, new_key
from treadle.errors import (
    BadValue,
    CantDecrypt,
    InvalidArguments,
    InvalidPayload,
    NoCodec,
    StaleRun,
    TaskConflict,
    ValidationFailed,
)
from treadle.ids import new_task_id
from treadle.tasks.registrations import registration
from treadle.wire.sealed import UNOPENED, UNSEALED, seal_of, seal_of_text
from treadle.worker.lease import Held
from treadle.worker.sealing import RunSealing
from treadle_server.testing import Served

pytestmark = pytest.mark.anyio

_KEY = new_key()
CODEC = FernetCodec(_KEY)


@pytest.fixture
async def keyed(server: Served) -> AsyncIterator[Client]:
    """A client with the keys; `client` has none."""
    async with Client(server.url, server.token, codec=CODEC) as keyed:
        yield keyed


async def everything(database_url: str) -> str:
    """Return all that a database keeps, as text: of SQLite its files, of PostgreSQL each row of each table."""
    kind, _, place = database_url.partition("://")
    if kind.startswith("sqlite"):
        path = Path("/" + place.lstrip("/"))
        return "".join(part.read_bytes().decode("latin-1") for part in path.parent.glob(f"{path.name}*"))
    connection = await asyncpg.connect(f"postgresql://{place}")
    try:
        names = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()")
        rows = [await connection.fetch(f'SELECT t::text FROM "{name[0]}" t') for name in names]
    finally:
        await connection.close()
    return "\n".join(row[0] for found in rows for row in found)


def files_in(directory: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


async def test_what_steps_keep_and_receive_is_sealed_f7(keyed: Client, either: Any, database_url: str) -> None:
    handle = await keyed.submit(whisper_in_steps.bind(SECRET))
    for _ in range(2):
        await handle.send("heard", {"word": SECRET}, id="1")
    with pytest.raises(TaskConflict):
        await handle.send("heard", {"word": "another"}, id="1")

    async with either(whisper_in_steps, codec=CODEC):
        result = await handle.result(timeout=30)
    kept = [(step.step, step.result) for step in await handle.steps()]

    assert result == [{"said": SECRET}, {"word": SECRET}]
    assert kept == [("say", {"said": SECRET}), ("heard", {"word": SECRET})]
    assert SECRET not in await everything(database_url)


async def test_a_message_that_is_not_sealed_is_refused_by_an_encrypted_task(keyed: Client, client: Client) -> None:
    handle = await keyed.submit(whisper_in_steps.bind(SECRET))

    with pytest.raises(ValidationFailed, match="data: the task is encrypted"):
        await client.send(handle.id, "heard", SECRET)


@pytest.mark.parametrize("whispering", [whisper, whisper_in_thread, whisper_in_process], ids=lambda one: one.job.name)
async def test_code_of_every_kind_gets_plain_values_and_tells_sealed_ones_f7(
    keyed: Client, client: Client, either: Any, whispering: Any, database_url: str
) -> None:
    async with either(whispering, codec=CODEC):
        done = await keyed.submit(whispering.bind(word=SECRET))
        failing = await keyed.submit(whispering.bind(word=SECRET, fails=True))
        assert await done.result(30) == {"said": SECRET}
        with pytest.raises(TaskFailed, match=f"KeyError: '{SECRET}'"):
            await failing.result(30)

    task, [run], lines = await failing.get(), await failing.runs(), await keyed.logs(failing.id)
    assert (task.encrypted, task.payload["word"], task.checkpoint) == (True, SECRET, {"kept": SECRET})
    assert run.error == f"KeyError: '{SECRET}'"
    assert str(run.traceback).startswith("Traceback")
    assert {f"logged {SECRET}", f"printed {SECRET}"} <= {line.message for line in lines}
    told = [await client.get(failing.id), await client.get(done.id), await client.runs(failing.id)]
    told += [await client.logs(failing.id), await client.request("GET", "/v1/failures")]
    assert SECRET not in repr(told)
    assert SECRET not in await everything(database_url)


@pytest.mark.inside  # the server is another process of this environment
async def test_a_secret_is_nowhere_in_the_servers_files_and_log_f7(tmp_path: Path) -> None:
    """Of a server in a process of its own: the database with its side files, what it logs, and the rest it writes."""
    with running_server(tmp_path, f"sqlite:///{tmp_path / 'treadle.db'}", TREADLE_LOG_FORMAT="json") as server:
        async with Client(server.url, server.token, codec=CODEC) as keyed, Client(server.url, server.token) as bare:
            async with working_at(server.url, server.token, whisper, codec=CODEC):
                handles = [await keyed.submit(whisper.bind(word=SECRET, fails=fails)) for fails in (False, True)]
                ends = [await handle.wait(30) for handle in handles]
            with pytest.raises(InvalidPayload):
                await bare.submit_raw(whisper.full_name, {"word": SECRET})
        kept = await asyncio.to_thread(files_in, tmp_path)

    assert [end.status for end in ends] == ["completed", "failed"]
    assert any(handles[0].id.encode() in data for data in kept.values())
    assert [path.name for path, data in kept.items() if SECRET.encode() in data] == []


async def test_without_keys_nothing_is_sent_and_the_error_says_what_to_set(
    client: Client, keyed: Client, server: Served, either: Any, database_url: str
) -> None:
    async with either(whisper, codec=CODEC):
        done = await keyed.submit(whisper.bind(word=SECRET))
        await done.result(30)

    for submitting in (client.submit(whisper.bind(word="x")), client.submit_many([whisper.bind(word="x")])):
        with pytest.raises(NoCodec, match=r"@global:tasks:whisper .*codec=.*TREADLE_ENCRYPTION_KEYS; nothing was sent"):
            await submitting
    with pytest.raises(NoCodec, match="docs/guides/encryption"):
        await client.handle(done.id).result(5)
    with pytest.raises(NoCodec, match="the worker has no keys"):
        Worker([whisper], url=server.url, token=server.token)
    seen = await client.get(done.id)
    assert (seal_of(seen.payload) is not None, seal_of(seen.result) is not None) == (True, True)
    assert (await client.list()).total == 1


async def test_the_keys_of_the_environment_are_the_clients_and_the_workers(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TREADLE_ENCRYPTION_KEYS", new_key())

    async with Client(server.url, server.token) as client, working_at(server.url, server.token, whisper):
        assert await (await client.submit(whisper.bind(word="x"))).result(30) == {"said": "x"}


async def test_a_child_process_has_no_keys(
    server: Served, monkeypatch: pytest.MonkeyPatch, client: Client, working: Any
) -> None:
    monkeypatch.setenv("TREADLE_ENCRYPTION_KEYS", _KEY)

    async with working(keys_in_a_child):
        assert await (await client.submit(keys_in_a_child.bind())).result(60) == []


async def test_a_value_whose_key_is_gone_fails_its_run_and_harms_nothing_else(
    server: Served, keyed: Client, either: Any, caplog: pytest.LogCaptureFixture
) -> None:
    key = new_key()
    async with Client(server.url, server.token, codec=FernetCodec(key)) as other:
        lost = await other.submit(whisper.bind(word="x"))
        kept = await keyed.submit(whisper.bind(word="y"))
        with caplog.at_level(logging.ERROR, "treadle.worker"):
            async with either(whisper, codec=CODEC):
                assert await kept.result(30) == {"said": "y"}
                end = await lost.wait(30)
        await lost.resume()
        async with either(whisper, codec=FernetCodec([new_key(), key])) as rotated:
            ended = await lost.wait(30)
        with pytest.raises(CantDecrypt, match="none of the keys here fits"):
            await lost.result(5)

    assert (end.status, end.error) == ("failed", UNOPENED)
    assert f"task {lost.id}, run 0, of @global:tasks:whisper can't start: it can't be decrypted" in caplog.text
    assert ended.status == "completed"
    async with Client(server.url, server.token, codec=rotated.config.sealer.codec) as both:
        assert await both.handle(lost.id).result(5) == {"said": "x"}
        assert (await both.get(lost.id)).payload["word"] == "x"


async def test_a_worker_that_knows_of_no_encryption_fails_what_it_is_given_and_leaks_nothing(
    server: Served, keyed: Client, either: Any
) -> None:
    """Its job became an encrypted one while it worked."""

    @task(name="whisper", max_retries=0)
    async def older(word: str) -> str:
        return word

    async with either(older):
        await keyed.register(whisper, replace=True)
        end = await (await keyed.submit(whisper.bind(word=SECRET))).wait(30)

    assert (end.status, end.error, end.result) == ("failed", UNOPENED, None)


async def test_a_changed_value_is_refused_by_its_worker(keyed: Client, either: Any) -> None:
    other = await keyed.submit(whisper.bind(word="other"))
    handle = await keyed.submit(whisper.bind(word="mine"), options=Options(delay=3600))
    raw = await keyed.call("get", {"id": handle.id})
    seal = seal_of(raw["payload"])
    assert seal is not None
    changed = seal[:60] + ("A" if seal[60] != "A" else "B") + seal[61:]
    await keyed.request("PATCH", f"/v1/tasks/{handle.id}", {"payload": {"treadle:encrypted": changed}, "delay": 0})

    async with either(whisper, codec=CODEC):
        assert (await other.result(30)) == {"said": "other"}
        end = await handle.wait(30)

    assert (end.status, end.error) == ("failed", UNOPENED)


async def test_a_codec_that_fails_ends_the_run_without_a_word_of_it(keyed: Client, either: Any) -> None:
    class Broken(FernetCodec):
        def encode(self, data: bytes) -> bytes:
            raise OSError("the key service is away")

    broken = Broken(_KEY)
    caught: list[BaseException] = []

    @task(encrypted=True, max_retries=0)
    async def saving(ctx: Context) -> str:
        ctx.log(SECRET)
        try:
            await ctx.save(SECRET)
        except BadValue as error:
            caught.append(error)
        return SECRET

    async with Client(keyed._urls[0], keyed._bearer, codec=FernetCodec(_KEY)) as own, either(saving, codec=broken):
        handle = await own.submit(saving.bind())
        end = await handle.wait(30)

    assert (end.status, end.reason, end.error) == ("failed", "internal-error", UNSEALED)
    assert "checkpoint: the checkpoint can't be encrypted: the key service is away" in str(caught[0])


async def test_a_pause_keeps_a_checkpoint_that_the_next_run_gets_in_plain(keyed: Client, either: Any) -> None:
    @task(encrypted=True)
    async def twice(ctx: Context, word: str) -> Any:
        if ctx.checkpoint is None:
            raise Pause(checkpoint={"so far": word})
        return ctx.checkpoint

    async with either(twice, codec=CODEC):
        handle = await keyed.submit(twice.bind(word="x"))
        while (await handle.get()).status != "paused":  # noqa: ASYNC110 - a pause is no end, which is pushed
            await asyncio.sleep(0)
        raw = await keyed.call("get", {"id": handle.id})
        await handle.resume()
        assert await handle.result(30) == {"so far": "x"}

    assert seal_of(raw["checkpoint"]) is not None


async def test_a_schedule_of_the_code_is_sealed_and_set_anew_only_when_it_or_the_first_key_has_changed(
    client: Client, either: Any
) -> None:
    limits = [Limit("words", key="/word", concurrency=1)]

    @task(encrypted=True, schedule=Every(3600, arguments={"word": SECRET}), limits=limits)
    async def nightly(word: str) -> str:
        return word

    async with either(nightly, codec=CODEC):
        while not (found := (await client.schedules()).items):  # noqa: ASYNC110 - nothing tells when it was set
            await asyncio.sleep(0)
    said = [
        registration(nightly, Sealer(codec))[1]["content_hash"]
        for codec in (FernetCodec([_KEY, new_key()]), FernetCodec([new_key(), _KEY]))
    ]

    assert seal_of(found[0].payload) is not None
    assert [*found[0].payload["treadle:limit_keys"]] == ["/word"]
    assert [found[0].content_hash == one for one in said] == [True, False]


async def test_submits_by_name_are_checked_and_sealed_in_the_client(keyed: Client, client: Client, either: Any) -> None:
    async with either(whisper, codec=CODEC):
        handle = await keyed.submit_raw(whisper.full_name, {"word": SECRET})
        assert await handle.result(30) == {"said": SECRET}
        with pytest.raises(InvalidArguments, match=r"whisper: payload\.word: 7 is not of type \"string\""):
            await keyed.submit_raw(whisper.full_name, {"word": 7})
        with pytest.raises(InvalidPayload, match="codec"):
            await client.submit_raw(whisper.full_name, {"word": SECRET})
    assert (await client.list()).total == 1


async def test_a_submit_by_name_takes_arguments_from_others_and_lacks_no_more_than_these(
    keyed: Client, either: Any
) -> None:
    @task(encrypted=True)
    async def told() -> str:
        return SECRET

    async with either(told, whisper, codec=CODEC):
        first = await keyed.submit(told.bind())
        options = Options(depends_on={"heard": first.id})
        handle = await keyed.submit_raw(whisper.full_name, {}, options=options, arguments_from={"word": "heard"})
        with pytest.raises(InvalidArguments, match="word"):
            await keyed.submit_raw(whisper.full_name, {}, options=options)

        assert await handle.result(30) == {"said": SECRET}


async def test_an_edit_a_resolve_and_a_schedule_by_hand_are_sealed(keyed: Client, client: Client) -> None:
    handle = await keyed.submit(whisper.bind(word="x"), options=Options(delay=3600))

    edited = await keyed.edit(handle.id, payload={"word": SECRET}, checkpoint=[SECRET])
    with pytest.raises(InvalidPayload, match="codec"):
        await client.edit(handle.id, payload={"word": SECRET})
    await client.edit(handle.id, priority=3)
    await handle.pause()
    resolved = await keyed.resolve(handle.id, result={"by": SECRET})
    made = await keyed.set_schedule("s", job=whisper.full_name, payload={"word": SECRET}, interval=60)

    assert (edited.payload, edited.checkpoint, resolved.result) == ({"word": SECRET}, [SECRET], {"by": SECRET})
    assert made.payload == (await keyed.schedule("s")).payload == {"word": SECRET}
    raw, schedule = await client.get(handle.id), await client.schedule("s")
    assert None not in {seal_of(raw.payload), seal_of(raw.checkpoint), seal_of(raw.result), seal_of(schedule.payload)}


@pytest.mark.parametrize("by", ["ids", "filter"])
async def test_what_is_said_of_many_is_sealed_for_those_that_are_encrypted(
    keyed: Client, client: Client, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    @task
    async def plain(word: str) -> str:
        return word

    hidden = [await keyed.submit(whisper.bind(word="x"), options=Options(delay=3600)) for _ in range(2)]
    shown = await keyed.submit(plain.bind(word="x"), options=Options(delay=3600))
    ids: list[str] = [*(handle.id for handle in hidden), shown.id]
    await keyed.act("pause", ids=ids)
    monkeypatch.setattr(bulk_sealing, "MOST_OF_PAGE", 2)
    missing = new_task_id()

    which: dict[str, Any] = {"ids": [*ids, missing]} if by == "ids" else {"filter": {"status": ["paused"]}}
    done = await keyed.act("resolve", **which, result=SECRET)

    assert (done.changed, done.versions.keys()) == (3, set(ids))
    assert [problem.id for problem in done.problems] == ([missing] if by == "ids" else [])
    assert [(await keyed.get(task_id)).result for task_id in ids] == [SECRET] * 3
    raw = [(await client.get(task_id)).result for task_id in ids]
    assert [seal_of(result) is None for result in raw] == [False, False, True]
    assert (await keyed.act("resolve", ids=[missing], error=SECRET)).changed == 0
    with pytest.raises(ValidationFailed):
        await keyed.act("resolve", result=SECRET)


async def test_a_plain_task_stays_plain_for_a_client_and_a_worker_with_keys(
    keyed: Client, client: Client, either: Any
) -> None:
    @task
    async def plain(word: str) -> str:
        return word

    async with either(plain, whisper, codec=CODEC):
        assert await (await keyed.submit(plain.bind(word="x"))).result(30) == "x"
        handle = await keyed.submit_raw(plain.full_name, {"word": "y"})
        await handle.result(30)

    assert (await client.get(handle.id)).result == "y"


async def test_a_submit_that_is_repeated_with_another_ciphertext_is_the_same_task_g6(keyed: Client) -> None:
    options = Options(id=new_task_id())

    first, again = [await keyed.submit(whisper.bind(word="x"), options=options) for _ in range(2)]

    assert first.submitted is not None
    assert again.submitted is not None
    assert (first.submitted.created, again.submitted.created) == (True, False)
    with pytest.raises(TaskConflict):
        await keyed.submit(whisper.bind(word="y"), options=options)


async def test_what_a_run_says_after_its_end_is_not_sent_in_plain() -> None:
    held = {("t", 0): Held({"id": "t", "run_id": 0, "encrypted": True}, 0.0)}
    sealing = RunSealing(Sealer(CODEC), held)
    of_it = {"task_id": "t", "run_id": 0}
    line = {**of_it, "kind": "logs", "lines": [{"message": SECRET}]}

    sealed = sealing.seal(line)
    held.clear()

    assert sealed is not None
    assert seal_of_text(sealed["lines"][0]["message"]) is not None
    assert sealing.seal(line) is None
    assert sealing.seal({**of_it, "kind": "completed", "result": SECRET}) == {**of_it, "kind": "stopped"}
    with pytest.raises(StaleRun):
        sealing.seal({**of_it, "kind": "checkpoint", "checkpoint": SECRET})
    assert RunSealing(Sealer(None), {}).seal(line) == line
