"""The SDK: `ctx.upload` wherever code runs, what ends an upload, and downloads (C4, C10)."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.artifacts import tasks
from tests.waiting import until
from tests.worker.conftest import working_at
from treadle import Client, Context, SyncClient, TaskFailed, task
from treadle.errors import (
    ArtifactConflict,
    ArtifactNotFound,
    ConnectionFailed,
    InvalidArguments,
    PayloadTooLarge,
    ProtocolMismatch,
    StaleRun,
)
from treadle.tasks.content import Content
from treadle.testing.inline import InlineWorker
from treadle.worker.uploads import CHUNK, Uploader
from treadle_server.errors import StoreUnavailable
from treadle_server.testing import Served, serve

BODY = bytes(range(256)) * 10_000
"""2.5 MB: some pieces, and a part of one."""


@pytest.fixture
async def served(sqlite_url: str, tmp_path: Path) -> AsyncIterator[Served]:
    async with serve(sqlite_url, data_dir=tmp_path / "data") as served:
        yield served


@pytest.fixture
async def client(served: Served) -> AsyncIterator[Client]:
    async with Client(served.url, served.token) as client:
        yield client


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "data.csv"
    path.write_bytes(BODY)
    return path


def hidden_in(directory: Path) -> list[Path]:
    """Return the drafts that a download left."""
    return list(directory.glob(".*"))


def working(served: Served, *given: Any, **options: Any) -> Any:
    return working_at(served.url, served.token, *given, **options)


async def test_c10_async_code_uploads_a_file_that_is_downloaded_as_it_was(
    served: Served, client: Client, file: Path, tmp_path: Path
) -> None:
    async with working(served, tasks.from_path):
        handle = await tasks.from_path.submit(path=file)
        assert await handle.result(timeout=20) == "data.csv"

    [item] = await handle.artifacts()
    saved = await handle.download("data.csv", tmp_path / "copy")
    assert (item.name, item.size, item.content_type, item.run_id) == ("data.csv", len(BODY), "text/csv", 0)
    assert saved.read_bytes() == BODY
    assert hidden_in(tmp_path) == []


async def test_c10_code_uploads_from_streams_threads_and_processes(
    served: Served, client: Client, file: Path, tmp_path: Path
) -> None:
    given = (tasks.from_stream, tasks.in_thread, tasks.in_process, tasks.async_in_process)
    async with working(served, *given):
        handles: list[Any] = [
            await tasks.from_stream.submit(pieces=1000),
            await tasks.in_thread.submit(text="grüße"),
            await tasks.in_process.submit(path=file, text="hello"),
            await tasks.async_in_process.submit(),
        ]
        results = [await handle.result(timeout=30) for handle in handles]

    assert results == [3890, 7, ["deep/file.bin", "said.txt"], 6]
    found = [[(item.name, item.size) for item in await handle.artifacts()] for handle in handles]
    assert found == [
        [("lines.txt", 3890)],
        [("said.txt", 7)],
        [("deep/file.bin", len(BODY)), ("said.txt", 5)],
        [("both", 6)],
    ]
    assert (await handles[2].download("deep/file.bin", tmp_path)).read_bytes() == BODY


async def test_c10_another_artifact_of_the_same_name_fails_the_code_that_uploads_it(
    served: Served, client: Client
) -> None:
    async with working(served, tasks.twice):
        handle = await tasks.twice.submit()
        with pytest.raises(TaskFailed, match="ArtifactConflict"):
            await handle.result(timeout=20)


@pytest.mark.parametrize("how", ["cancel", "gone"])
async def test_c4_code_that_was_cancelled_or_has_lost_its_run_uploads_nothing(
    served: Served, client: Client, how: str
) -> None:
    refused: list[Exception] = []
    began, ended = threading.Event(), threading.Event()

    @task(name=f"late-{how}")
    def late(ctx: Context) -> None:
        began.set()
        ctx.wait_cancelled(20)
        try:
            ctx.upload(b"too late", name="late.txt")
        except StaleRun as error:
            refused.append(error)
        ended.set()

    async with working(served, late):
        handle = await late.submit()
        await asyncio.to_thread(began.wait, 20)
        if how == "cancel":
            await handle.cancel()
        else:
            worker_id = (await handle.get()).worker_id
            await client.http().request("DELETE", f"/v1/workers/{worker_id}")
        await asyncio.to_thread(ended.wait, 20)

    assert [type(error) for error in refused] == [StaleRun]
    assert "nothing was uploaded" in str(refused[0])
    assert await handle.artifacts() == []


async def _run(served: Served) -> str:
    """Return a task whose run 0 has started, in no worker's hands."""
    from tests.api.rooms import make_room

    async with httpx.AsyncClient(base_url=served.url, headers=served.headers) as http:
        room = await make_room(http)
        await room.submit()
        return str((await room.start())["id"])


async def _run_with_file(served: Served) -> tuple[str, int]:
    """Return a run that has stored `a.txt`, with "hello" in it."""
    key = (await _run(served), 0)
    uploader = Uploader((served.url,), served.token)
    await uploader.upload(key, Content(b"hello", "a.txt", "text/plain"))
    await uploader.close()
    return key


async def test_c4_an_upload_whose_run_is_lost_on_the_way_ends_there_and_is_not_seen(
    served: Served, client: Client
) -> None:
    key = (await _run(served), 0)
    looks = iter(range(100))

    def check() -> None:
        if next(looks) == 3:
            raise StaleRun(problem())

    uploader = Uploader((served.url,), served.token)
    with pytest.raises(StaleRun):
        await uploader.upload(key, Content(bytes(5 * CHUNK), "big", "text/plain"), check)
    await uploader.close()

    assert await client.artifacts(key[0]) == []
    await until(lambda: not list((served.settings.data_dir / "artifacts").rglob("*-*")))


async def test_c10_a_file_that_grows_meanwhile_is_uploaded_as_it_was_when_the_upload_began(
    served: Served, client: Client, file: Path, tmp_path: Path
) -> None:
    """As a log does, which is written to all the time; tried again for a minute, it failed."""
    key = (await _run(served), 0)

    def check() -> None:
        with file.open("ab") as log:
            log.write(b"another line\n")

    uploader = Uploader((served.url,), served.token, patience=0)
    item = await uploader.upload(key, Content(file, "log", "text/plain"), check)
    await uploader.close()

    saved = await client.download(key[0], "log", tmp_path / "copy")
    assert (item.size, saved.read_bytes()) == (len(BODY), BODY)


async def test_c10_a_file_that_becomes_shorter_meanwhile_is_refused_at_once(served: Served, file: Path) -> None:
    key = (await _run(served), 0)
    looks = iter(range(100))

    def check() -> None:
        if next(looks) == 1:
            file.write_bytes(b"")

    uploader = Uploader((served.url,), served.token)
    with pytest.raises(InvalidArguments, match="shrank while it was uploaded: upload a copy"):
        await uploader.upload(key, Content(file, "log", "text/plain"), check)
    await uploader.close()


def problem() -> Any:
    from treadle.errors import problem_named

    return problem_named("stale-run", "as the test wants it")


class Interrupted(httpx.AsyncHTTPTransport):
    """A way on which the first upload breaks off when it has taken some seconds."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._left = [seconds]

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.method == "PUT" and self._left:
            await asyncio.sleep(self._left.pop())
            raise httpx.WriteError("reset by peer", request=request)
        return await super().handle_async_request(request)


class CutOff(httpx.AsyncHTTPTransport):
    """A way on which each upload but the last breaks off when so many pieces have gone through."""

    def __init__(self, *pieces: int) -> None:
        super().__init__()
        self._left = [*pieces]

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.method == "PUT" and self._left:
            assert isinstance(request.stream, httpx.AsyncByteStream)
            most = self._left.pop(0)
            async for _ in request.stream:
                most -= 1
                if not most:
                    raise httpx.WriteError("reset by peer", request=request)
        return await super().handle_async_request(request)


async def test_c10_an_upload_is_given_up_when_it_breaks_off_again_and_again_and_never_further_on(
    served: Served,
) -> None:
    """It was at its second break, however far that was, when the first was longer ago than failures are borne with."""
    key, content = (await _run(served), 0), Content(bytes(5 * CHUNK), "big", "text/plain")
    further = Uploader((served.url,), served.token, patience=0.05, mounts={"all://": CutOff(1, 2, 4)})
    same = Uploader((served.url,), served.token, patience=0.05, mounts={"all://": CutOff(2, 2, 1)})

    with pytest.raises(ConnectionFailed, match="reset by peer"):
        await same.upload(key, content)
    artifact = await further.upload(key, content)

    await same.close()
    await further.close()
    assert artifact.size == 5 * CHUNK


async def test_c10_an_upload_that_breaks_off_after_a_long_while_is_made_again(served: Served) -> None:
    """A large one, which took longer than failures are borne with, failed for good at its first."""
    key = (await _run(served), 0)
    uploader = Uploader((served.url,), served.token, patience=0.1, mounts={"all://": Interrupted(0.2)})

    item = await uploader.upload(key, Content(BODY, "data", "text/plain"))

    assert item.size == len(BODY)
    await uploader.close()


class Crowded(httpx.AsyncHTTPTransport):
    """A way on which the first upload finds no place, and is told so as `serving.refuses` does."""

    def __init__(self) -> None:
        super().__init__()
        self.refused = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.method == "PUT" and not self.refused:
            self.refused += 1
            problem = {"type": "about:blank", "title": "Service Unavailable", "status": 503, "detail": "too many"}
            return httpx.Response(503, json=problem, request=request)
        return await super().handle_async_request(request)


async def test_c10_an_upload_for_which_there_is_no_connection_left_is_made_again(served: Served) -> None:
    """The bytes go without a token on a connection of their own: that there was none failed the code that uploaded."""
    key, way = (await _run(served), 0), Crowded()
    uploader = Uploader((served.url,), served.token, mounts={"all://": way})

    item = await uploader.upload(key, Content(b"hello", "data", "text/plain"))

    assert (item.size, way.refused) == (5, 1)
    await uploader.close()


@pytest.mark.parametrize(
    ("status", "kind", "advice"),
    [
        (301, ProtocolMismatch, "the server says that files are there: check its TREADLE_PUBLIC_URL"),
        (413, PayloadTooLarge, "a proxy allows less than the server does"),
    ],
)
async def test_c10_an_upload_that_a_proxy_answers_is_told_with_what_to_mend(
    served: Served, status: int, kind: type[Exception], advice: str
) -> None:
    """The first is answered by one for https:// to http://, when the server doesn't know that it stands behind one."""
    key = (await _run(served), 0)
    proxy = httpx.MockTransport(lambda _: httpx.Response(status, html="<html>"))
    uploader = Uploader((served.url,), served.token, mounts={"all://": proxy})

    with pytest.raises(kind, match=f"PUT {served.url} answered {status}.*{advice}"):
        await uploader.upload(key, Content(b"hello", "data", "text/plain"))

    await uploader.close()


async def test_c10_an_upload_that_fails_on_the_way_is_made_again(
    served: Served, client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It was tried for a minute without a word."""
    key = (await _run(served), 0)
    objects = served.app.state.ctx.artifacts.objects
    put, tries = objects.put, []

    async def once_broken(*args: Any, **given: Any) -> None:
        tries.append(args)
        if len(tries) == 1:
            raise StoreUnavailable("the disk is gone", retry_after=1)
        await put(*args, **given)

    monkeypatch.setattr(objects, "put", once_broken)
    uploader = Uploader((served.url,), served.token)
    item = await uploader.upload(key, Content(BODY, "data", "text/plain"))
    again = await uploader.upload(key, Content(BODY, "data", "text/plain"))
    with pytest.raises(ArtifactConflict):
        await uploader.upload(key, Content(b"other", "data", "text/plain"))
    await uploader.close()

    assert len(tries) == 2
    [said] = [record.message for record in caplog.records if record.name == "treadle.worker"]
    assert said.startswith(f"the upload of 'data' for task {key[0]} has failed: ")
    assert said.endswith("the disk is gone; trying again")
    assert item == again
    assert await client.artifacts(key[0]) == [item]


@task
def uploads_inline(ctx: Context) -> str:
    return ctx.upload(b"hello", name="a.txt").item.name


@task
async def uploads_inline_async(ctx: Context) -> str:
    return (await ctx.upload(b"hello", name="a.txt")).name


@pytest.mark.parametrize("inline", [uploads_inline, uploads_inline_async], ids=["sync", "async"])
def test_c10_an_inline_worker_uploads_too(treadle_server: Any, treadle_client: SyncClient, inline: Any) -> None:
    with InlineWorker([inline], url=treadle_server.url, token=treadle_server.token) as worker:
        handle = treadle_client.submit(inline.bind())
        worker.run_all()

    assert handle.result(timeout=30) == "a.txt"
    assert [item.name for item in handle.artifacts()] == ["a.txt"]
    assert treadle_client.artifacts(handle.id, run=1) == []


def _context() -> Context:
    class Nothing:
        def upload(self, content: Content) -> Any:
            raise AssertionError(f"{content} was to be uploaded")

    return Context({"id": "x", "run_id": 0, "payload": {}}, Nothing())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("source", "options", "said"),
    [
        ("no/such/file", {}, "is not a file"),
        (5, {}, "5 is not a file"),
        (iter([b"x"]), {"name": "x"}, "iterator .* is not a file: upload a path, bytes, or an async iterator of bytes"),
        (b"x", {}, "no name"),
        (b"x", {"name": "../x"}, "'..'"),
        (b"x", {"name": "x", "content_type": "html"}, "media type"),
    ],
)
def test_what_can_not_be_uploaded_is_refused_before_anything_is_sent(
    source: Any, options: dict[str, str], said: str
) -> None:
    with pytest.raises(InvalidArguments, match=said):
        _context().upload(source, **options)


def test_an_async_iterator_is_refused_where_nothing_can_await_it() -> None:
    async def stream() -> AsyncIterator[bytes]:
        yield b"x"

    with pytest.raises(InvalidArguments, match="async code"):
        _context().upload(stream(), name="x")


async def test_an_async_iterator_of_text_is_refused_by_what_it_yielded() -> None:
    """It failed with the standard library's words for a file, and was tried again."""

    async def stream() -> AsyncIterator[str]:
        yield "text"

    with pytest.raises(InvalidArguments, match=r"the async iterator yielded 'text' instead of bytes"):
        await _context().upload(stream(), name="x")  # type: ignore[arg-type]


async def test_c10_a_download_that_is_not_what_was_stored_leaves_no_file(
    served: Served, client: Client, tmp_path: Path
) -> None:
    key = await _run_with_file(served)
    [path] = (served.settings.data_dir / "artifacts").rglob("*-*")
    path.write_bytes(b"HELLO")
    place = tmp_path / "saved"
    place.mkdir()

    with pytest.raises(ProtocolMismatch, match="sha256"):
        await client.download(key[0], "a.txt", place)
    with pytest.raises(ArtifactNotFound):
        await client.download(key[0], "b.txt", place)

    assert list(place.iterdir()) == []


async def test_c10_a_name_leads_to_no_other_tasks_artifact(served: Served, client: Client, tmp_path: Path) -> None:
    """Of a web application that hands on what its user has written, anybody's were got by the application's token."""
    others, _ = await _run_with_file(served)
    mine = (await client.submit(tasks.from_path.bind(path=tmp_path))).id

    for name in (f"../../{others}/artifacts/a.txt", f"./../../{others}/artifacts/a.txt"):
        with pytest.raises(ArtifactNotFound):
            await client.download(mine, name, tmp_path / "saved")
    for name in ("./a.txt", "b/../a.txt"):
        with pytest.raises(ArtifactNotFound):
            await client.download(others, name, tmp_path / "saved")


async def test_c10_a_download_goes_on_at_another_server_when_one_does_not_answer(
    served: Served, client: Client, tmp_path: Path
) -> None:
    key = (await _run(served), 0)
    uploader = Uploader(("http://127.0.0.1:1", served.url), served.token)
    await uploader.upload(key, Content(b"hello", "a.txt", "text/plain"))
    await uploader.close()

    async with Client(f"http://127.0.0.1:1,{served.url}", served.token) as other:
        other.http()._urls.sort(key=lambda url: url == served.url)
        saved = await other.download(key[0], "a.txt", tmp_path / "b.txt")
    async with Client("http://127.0.0.1:1", served.token) as lost:
        with pytest.raises(ConnectionFailed, match="no server answers"):
            await lost.download(key[0], "a.txt", tmp_path / "c.txt")

    assert saved.read_bytes() == b"hello"
    assert hidden_in(tmp_path) == []


async def test_c10_a_name_that_ends_in_a_directory_is_told_as_one_where_it_would_be_saved(
    served: Served, client: Client, tmp_path: Path
) -> None:
    """It was said to be a device, a pipe or a socket."""
    key = await _run_with_file(served)

    for name in ("b/..", "a.txt/"):
        with pytest.raises(IsADirectoryError):
            await client.download(key[0], name, tmp_path)

    assert hidden_in(tmp_path) == []


async def test_c10_a_download_has_the_permissions_of_new_files_and_replaces_no_pipe(
    served: Served, client: Client, tmp_path: Path
) -> None:
    """It was for its owner's eyes alone, and a superuser who saved to /dev/null had a file there."""
    key = await _run_with_file(served)
    usual, pipe = tmp_path / "usual", tmp_path / "pipe"
    usual.touch()
    os.mkfifo(pipe)

    saved = await client.download(key[0], "a.txt", tmp_path)
    with pytest.raises(FileExistsError, match="a device, a pipe or a socket"):
        await client.download(key[0], "a.txt", pipe)

    assert saved.stat().st_mode == usual.stat().st_mode
    assert pipe.is_fifo()
    assert hidden_in(tmp_path) == []
