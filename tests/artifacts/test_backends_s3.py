"""Artifacts in S3: clients put and get at the store itself; nothing is visible before the server has looked (C10)."""

import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from moto.server import ThreadedMotoServer
from obstore import sign
from obstore.exceptions import PermissionDeniedError
from werkzeug.serving import make_server

from tests.artifacts.conftest import _by_hand
from tests.artifacts.studio import Studio, opened, problem
from tests.conftest import FakeClock
from treadle import Client
from treadle.errors import ArtifactNotFound, ConnectionFailed, ConnectionLost, Forbidden
from treadle.tasks.content import Content
from treadle.worker.uploads import Uploader
from treadle_server.artifacts import backends
from treadle_server.testing import serve

if TYPE_CHECKING:
    from obstore.store import ObjectStore


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    """The address of a server that speaks S3."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
async def bucket(s3: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """An empty bucket, and the environment by which it is reached."""
    given = {
        "AWS_ENDPOINT_URL": s3,
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "somebody",
        "AWS_SECRET_ACCESS_KEY": "secret",
    }
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    async with httpx.AsyncClient(base_url=s3) as http:
        await http.post("/moto-api/reset")
        assert (await http.put("/things")).status_code == 200
    return f"{s3}/things"


@pytest.fixture
async def studio(
    bucket: str, sqlite_url: str, clock: FakeClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Studio]:
    monkeypatch.setattr("treadle_server.app.run_services", _by_hand)
    given = {"clock": clock, "data_dir": tmp_path / "data", "artifacts": "s3://things/some/prefix"}
    async with serve(sqlite_url, **given) as served, opened(served, clock) as studio:
        yield studio


async def objects(studio: Studio) -> list[str]:
    """Return the keys of all objects beneath the prefix."""
    found = studio.objects._store.list(chunk_size=1000)
    return sorted([meta["path"] async for chunk in found for meta in chunk])


async def finish(studio: Studio, upload: dict[str, str]) -> httpx.Response:
    return await studio.nobody.post(upload["finish_url"])


async def test_c10_an_object_is_put_to_the_store_and_visible_once_it_is_finished(studio: Studio, bucket: str) -> None:
    task = await studio.started()
    upload = await studio.announced(task)
    assert upload["put_url"].startswith(f"{bucket}/some/prefix/")
    assert (await studio.put(upload)).status_code == 200
    assert await studio.names(task) == []

    stored = await finish(studio, upload)

    assert stored.status_code == 201
    assert await studio.listed(task) == [stored.json()]
    assert stored.json()["sha256"] == sha256(b"hello").hexdigest()
    answer = await studio.fetch(task)
    assert (answer.status_code, answer.content) == (303, b"")
    assert answer.headers["location"].startswith(f"{bucket}/some/prefix/")
    fetched = await studio.nobody.get(answer.headers["location"])
    assert (fetched.content, fetched.headers["content-type"]) == (b"hello", "text/plain")
    assert len(await objects(studio)) == 1
    assert (await finish(studio, upload)).json() == stored.json()


async def test_c10_a_head_is_led_where_the_store_answers_a_head(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is signed is the method too: with a URL for a GET the store answers a HEAD by 403, which moto does not."""
    signed: list[str] = []

    def noted(store: Any, method: Any, *more: Any) -> str:
        signed.append(method)
        return str(sign(store, method, *more))

    monkeypatch.setattr("treadle_server.artifacts.objects.sign", noted)
    task = await studio.started()
    upload = await studio.announced(task)
    await studio.put(upload)
    await finish(studio, upload)

    answer = await studio.root.head(f"/v1/tasks/{task}/artifacts/a.txt")
    known = await studio.fetch(task, **{"If-None-Match": answer.headers["etag"]})

    assert (answer.status_code, signed) == (303, ["PUT", "HEAD"])
    assert (await studio.nobody.head(answer.headers["location"])).headers["content-length"] == "5"
    assert (known.status_code, known.content) == (304, b"")


async def test_c10_what_is_put_again_after_the_finish_changes_nothing(studio: Studio) -> None:
    task = await studio.started()
    upload = await studio.announced(task)
    await studio.put(upload)
    await finish(studio, upload)

    await studio.put(upload, b"EVIL!")

    location = (await studio.fetch(task)).headers["location"]
    assert (await studio.nobody.get(location)).content == b"hello"
    studio.clock.at += timedelta(days=10_000)
    await studio.sweep()
    assert len(await objects(studio)) == 1


@pytest.mark.parametrize(
    ("body", "headers", "said"),
    [
        (b"hell", {}, "4 bytes"),
        (b"HELLO", {}, "sha256"),
        (b"hello", {"Content-Type": "text/html"}, "text/html"),
        (None, {}, "nothing was uploaded"),
    ],
    ids=["length", "digest", "type", "nothing"],
)
async def test_c10_what_is_not_as_announced_is_not_taken_and_may_be_put_again(
    studio: Studio, body: bytes | None, headers: dict[str, str], said: str
) -> None:
    task = await studio.started()
    upload = await studio.announced(task, sha256=sha256(b"hello").hexdigest())
    if body is not None:
        await studio.put(upload, body, **headers)

    refused = await finish(studio, upload)

    assert (refused.status_code, problem(refused)) == (422, "validation-error")
    assert said in refused.json()["detail"]
    assert await studio.names(task) == []
    assert all("/staging/" in key for key in await objects(studio))
    await studio.put(upload)
    assert (await finish(studio, upload)).status_code == 201


async def test_c10_a_finish_after_the_runs_end_is_refused_and_leaves_nothing(studio: Studio) -> None:
    task = await studio.started()
    upload = await studio.announced(task)
    await studio.put(upload)
    await studio.report(task, "completed")

    refused = await finish(studio, upload)

    assert (refused.status_code, problem(refused)) == (409, "artifact-conflict")
    assert await studio.names(task) == []
    studio.clock.at += timedelta(days=10_000)
    await studio.sweep()
    assert await objects(studio) == []


async def test_c10_the_signature_of_a_finish_is_for_that_upload_alone(studio: Studio) -> None:
    task = await studio.started()
    first, second = await studio.announced(task), await studio.announced(task, name="b.txt")
    url, query = first["finish_url"].split("?")

    for wrong in (url, f"{second['finish_url'].split('?')[0]}?{query}"):
        refused = await studio.nobody.post(wrong)
        assert (refused.status_code, problem(refused)) == (403, "forbidden")


async def test_c10_an_upload_that_took_hours_is_finished(studio: Studio) -> None:
    """The store took the last byte of it, and the server refused to look: its URL had ended with that of the upload."""
    task = await studio.started(lease_seconds=1_000_000)
    upload = await studio.announced(task)
    assert (await studio.put(upload)).status_code == 200
    studio.clock.advance(20 * 3600)

    stored = await finish(studio, upload)

    assert (stored.status_code, await studio.names(task)) == (201, ["a.txt"])


async def test_c10_the_sdk_uploads_to_the_store_and_downloads_from_it(studio: Studio, tmp_path: Path) -> None:
    task = await studio.started()
    body = bytes(range(256)) * 20_000
    uploader = Uploader((studio.served.url,), studio.served.token)
    try:
        item = await uploader.upload((task, 0), Content(body, "deep/data.bin", "application/octet-stream"))
    finally:
        await uploader.close()

    async with Client(studio.served.url, studio.served.token) as client:
        assert await client.artifacts(task) == [item]
        saved = await client.download(task, "deep/data.bin", tmp_path)

    assert saved == tmp_path / "data.bin"
    assert saved.read_bytes() == body


async def test_c10_what_can_not_be_removed_afterwards_is_left_to_the_sweeper_and_changes_no_answer(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bucket's policy may let nobody remove: what was stored was answered by 503, and a refusal too."""
    task = await studio.started()
    upload, other = await studio.announced(task), await studio.announced(task, name="other")
    await studio.put(upload)
    await studio.put(other, b"hell")
    with monkeypatch.context() as patch:
        patch.setattr(studio.objects, "_store", KeepsAll(studio.objects._store))
        stored, refused = await finish(studio, upload), await finish(studio, other)
    assert (stored.status_code, refused.status_code) == (201, 422)
    assert len(await studio.names(task)) == 1
    studio.clock.at += timedelta(days=10_000)
    await studio.sweep()
    assert len([key for key in await objects(studio) if "/staging/" not in key]) == 1


class KeepsAll:
    """A store in which nobody may remove anything."""

    def __init__(self, store: "ObjectStore") -> None:
        self.copy, self.get, self.head = store.copy, store.get, store.head

    def delete(self, path: str) -> None:
        raise PermissionDeniedError(f"{path} stays")


async def test_c10_a_store_that_does_not_answer_is_a_503_with_the_time_to_come_back(
    bucket: str, sqlite_url: str, clock: FakeClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("treadle_server.app.run_services", _by_hand)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setattr(backends, "PATIENCE", {"max_retries": 0})
    given = {"clock": clock, "data_dir": tmp_path / "data", "artifacts": "s3://things"}
    async with serve(sqlite_url, **given) as served, opened(served, clock) as studio:
        task = await studio.started()
        upload = await studio.announced(task)

        answer = await finish(studio, upload)

        assert (answer.status_code, problem(answer)) == (503, "store-unavailable")
        assert int(answer.headers["retry-after"]) > 0
        assert await studio.names(task) == []


async def test_c10_what_a_bucket_says_of_an_upload_that_it_refuses_is_raised(studio: Studio, bucket: str) -> None:
    task = await studio.started()
    async with httpx.AsyncClient() as http:
        assert (await http.delete(bucket)).status_code == 204
    uploader = Uploader((studio.served.url,), studio.served.token)

    try:
        said = r"the bucket refuses the upload: PUT \S+ answers 404: NoSuchBucket: The specified bucket does not exist$"
        with pytest.raises(Forbidden, match=said):
            await uploader.upload((task, 0), Content(b"hello", "a.txt", "text/plain"))
    finally:
        await uploader.close()


async def stored(studio: Studio) -> str:
    """Return a task whose run has stored an artifact."""
    task = await studio.started()
    upload = await studio.announced(task)
    await studio.put(upload)
    assert (await finish(studio, upload)).status_code == 201
    return task


async def test_c10_what_a_bucket_says_of_a_download_that_it_refuses_is_raised(
    studio: Studio, bucket: str, tmp_path: Path
) -> None:
    """It was asked whether a Treadle server were there."""
    task = await stored(studio)
    await studio.objects.remove(await objects(studio))
    async with httpx.AsyncClient() as http, Client(url=studio.served.url, token=studio.served.token) as client:
        with pytest.raises(ArtifactNotFound, match=r"GET \S+ answers 404: NoSuchKey: "):
            await client.download(task, "a.txt", tmp_path)
        assert (await http.delete(bucket)).status_code == 204
        with pytest.raises(Forbidden, match=r"the bucket refuses the download: GET \S+ answers 404: NoSuchBucket: "):
            await client.download(task, "a.txt", tmp_path)


async def test_c10_a_bucket_that_a_client_does_not_reach_is_said_to_be_that(
    studio: Studio, s3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server was said not to answer, which had just told where the file is."""
    task = await stored(studio)
    monkeypatch.setattr(
        "treadle_server.artifacts.objects.sign", lambda *given: str(sign(*given)).replace(s3, "http://127.0.0.1:9")
    )

    async with Client(url=studio.served.url, token=studio.served.token) as client:
        with pytest.raises(ConnectionLost, match=r"from http://127\.0\.0\.1:9 broke .*check its AWS_ENDPOINT_URL"):
            await client.download(task, "a.txt", tmp_path)


class Answering:
    """A bucket that answers each request in one way."""

    def __init__(self, status: int, text: str = "", **headers: str) -> None:
        self.status, self.text, self.headers = status, text, headers
        self.asked = 0

    def __call__(self, environ: Any, begin: Any) -> list[bytes]:
        self.asked += 1
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        assert environ["REQUEST_METHOD"] != "PUT" or body
        begin(f"{self.status} said", list(self.headers.items()))
        return [self.text.encode()]


@pytest.fixture
def answers(studio: Studio, s3: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Answering], None]]:
    """Has clients led to a bucket that answers so."""
    with ExitStack() as stack:

        def lead(to: Answering) -> None:
            server = make_server("127.0.0.1", 0, to)
            stack.callback(server.shutdown)
            serving = threading.Thread(target=server.serve_forever)
            serving.start()
            elsewhere = f"http://127.0.0.1:{server.port}"
            monkeypatch.setattr(
                "treadle_server.artifacts.objects.sign", lambda *given: str(sign(*given)).replace(s3, elsewhere)
            )

        yield lead


@pytest.mark.parametrize("status", [400, 408])
async def test_c10_an_upload_that_was_too_slow_for_the_bucket_is_made_again(
    studio: Studio, answers: Callable[[Answering], None], status: int
) -> None:
    """S3 says 400 of a connection on which nothing came for a while; it was told as what nobody may."""
    bucket = Answering(status, "<Error><Code>RequestTimeout</Code><Message>Too slow.</Message></Error>")
    answers(bucket)
    task = await studio.started()
    uploader = Uploader((studio.served.url,), studio.served.token, patience=0.5)

    try:
        with pytest.raises(ConnectionFailed, match=f"answers {status}$"):
            await uploader.upload((task, 0), Content(b"hello", "a.txt", "text/plain"))
    finally:
        await uploader.close()

    assert bucket.asked > 1


async def test_c10_a_bucket_that_leads_a_download_elsewhere_is_said_to_do_so(
    studio: Studio, answers: Callable[[Answering], None], tmp_path: Path
) -> None:
    """What it said of that was taken for the file, and told as one with another digest."""
    task = await stored(studio)
    answers(Answering(307, "<Error><Code>TemporaryRedirect</Code><Message>Go.</Message></Error>", Location="http://x"))

    async with Client(url=studio.served.url, token=studio.served.token) as client:
        with pytest.raises(Forbidden, match=r"the bucket refuses the download: GET \S+ answers 307: TemporaryRedirect"):
            await client.download(task, "a.txt", tmp_path)
