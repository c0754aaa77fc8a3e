"""A store of artifacts that fails: what is logged of it."""

import asyncio
import errno
import gc
import os
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from secrets import token_hex

import pytest

from tests.waiting import turns, until
from treadle_server.artifacts.objects import Objects
from treadle_server.errors import StoreUnavailable

pytestmark = pytest.mark.anyio


async def pieces() -> AsyncIterator[bytes]:
    yield b"x"


async def fails(objects: Objects) -> None:
    """Ask for several objects, each in several ways."""
    objects.site = "site"
    for location in (objects.staging("019aa5c0-0000-7000-8000-000000000001"), objects.fresh("a"), objects.fresh("a")):
        with pytest.raises(StoreUnavailable):
            await objects.put(location, pieces())
        with pytest.raises(StoreUnavailable):
            await objects.copy(location, objects.fresh("b"))
    await objects.close()


async def test_what_fails_alike_is_one_line_of_the_log_whichever_object_was_meant(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Each line named another object, so that the log told of a full disk a hundred times a minute."""
    (tmp_path / "site").write_text("no directory", "utf-8")

    await fails(Objects(tmp_path.as_uri(), tmp_path))

    assert {record.getMessage().split("Unable to ")[1] for record in caplog.records} == {
        f"{what}: Not a directory (os error 20)"
        for what in (
            f"open file {tmp_path}/site/staging/…",
            f"open file {tmp_path}/site/…",
            f"copy file from {tmp_path}/site/staging/… to {tmp_path}/site/…",
            f"copy file from {tmp_path}/site/… to {tmp_path}/site/…",
        )
    }


async def test_what_fails_in_a_thread_of_an_upload_that_was_cancelled_is_no_error_of_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    objects = Objects(tmp_path.as_uri(), tmp_path)
    begun, fails = threading.Event(), threading.Event()

    def call() -> None:
        begun.set()
        fails.wait()
        raise OSError("the disk is full")

    working = asyncio.create_task(objects._in_thread(call))
    await asyncio.to_thread(begun.wait)
    working.cancel()
    await turns(5)
    fails.set()

    with pytest.raises(asyncio.CancelledError):
        await working
    await objects.close()
    gc.collect()
    assert caplog.messages == []


async def refuse(code: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer a request as a bucket does that refuses it: in two lines, and with the request's name."""
    await reader.readuntil(b"\r\n\r\n")
    said = (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{code}</Code>'
        f"<Message>Check your key.</Message><RequestId>{token_hex(8)}</RequestId></Error>"
    )
    head = f"HTTP/1.1 403 Forbidden\r\nContent-Length: {len(said)}\r\nConnection: close\r\n\r\n"
    writer.write(f"{head}{said}".encode())
    writer.close()


@asynccontextmanager
async def refusing(code: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Objects]:
    """Give the objects of a bucket that refuses everything."""
    listener = await asyncio.start_server(partial(refuse, code), "127.0.0.1", 0)
    name_bucket(monkeypatch, f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}")
    objects = Objects("s3://things/some/prefix", None)
    objects.site = "site"
    yield objects
    await objects.close()
    listener.close()


async def test_a_bucket_that_refuses_is_told_in_the_same_words_each_time(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """They had how long it took, so that the log and a service's word on its health differed every two seconds.

    What the store itself says of it stands in its second line, and was left out.
    """
    told = set()
    async with refusing("SignatureDoesNotMatch", monkeypatch) as objects:
        for _ in range(3):
            with pytest.raises(StoreUnavailable, match="403") as failed:
                await anext(objects.older_than(datetime.now(UTC)))
            told.add(failed.value.detail)

    [detail] = told
    assert "403 Forbidden: SignatureDoesNotMatch: Check your key.)" in detail
    assert len(set(caplog.messages)) == 1


async def test_a_bucket_that_the_server_may_not_list_is_no_failure(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A server whose key may put, give and remove objects was not ready, for it looks for those that no row knows."""
    async with refusing("AccessDenied", monkeypatch) as objects:
        assert [old async for old in objects.older_than(datetime.now(UTC))] == []

    assert "allow s3:ListBucket to have them removed" in caplog.messages[-1]


def name_bucket(monkeypatch: pytest.MonkeyPatch, endpoint: str) -> None:
    for name, value in {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "somebody",
        "AWS_SECRET_ACCESS_KEY": "secret",
    }.items():
        monkeypatch.setenv(name, value)


async def test_a_bucket_that_is_away_is_told_once_for_each_that_is_done_to_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    name_bucket(monkeypatch, "http://127.0.0.1:1")

    await fails(Objects("s3://things/some/prefix", None))

    assert len(caplog.records) == 6
    assert len({record.getMessage() for record in caplog.records}) == 2


async def test_a_disk_that_is_found_full_when_a_file_is_brought_to_it_is_a_failure_of_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of network and thin disks that is when they say so; it was the server's own failure, and not tried again."""
    objects = Objects(tmp_path.as_uri(), tmp_path)
    objects.site = "site"

    def is_full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", is_full)
    with pytest.raises(StoreUnavailable, match="No space left on device"):
        await objects.put(objects.fresh("a"), pieces())
    await objects.close()


class Silent:
    """A bucket that answers nothing until it is released."""

    def __init__(self) -> None:
        self.asked = 0
        self.release = threading.Event()

    def head(self, path: str) -> None:
        self.asked += 1
        self.release.wait()
        raise FileNotFoundError(path)


async def test_a_bucket_that_is_silent_keeps_no_thread_of_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six uploads that were to be finished had whoever asked for metrics, or announced another, wait for a minute."""
    name_bucket(monkeypatch, "http://127.0.0.1:1")
    objects, silent = Objects("s3://things", None), Silent()
    with monkeypatch.context() as patch:
        patch.setattr(objects, "_store", silent)
        asking = [asyncio.create_task(objects.size_of("a")) for _ in range(40)]
        await turns(5)
    others = [asyncio.create_task(asyncio.to_thread(int)), asyncio.create_task(objects.url("PUT", "b", 60))]

    try:
        await until(lambda: all(other.done() for other in others), seconds=10)
    finally:
        silent.release.set()
        await asyncio.gather(*asking, *others, return_exceptions=True)
        await objects.close()
