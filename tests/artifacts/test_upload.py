"""Uploads: announced, put by a signed URL, visible when whole; and until when a run may (C10)."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from hashlib import sha256

import httpx
import pytest

from tests.artifacts.studio import Studio, problem
from tests.live.sockets import connected
from tests.waiting import until
from treadle_server.artifacts.objects import MOST_WRITES


async def test_c10_what_is_put_is_listed_and_fetched_as_it_was(either: Studio) -> None:
    task = await either.started()

    upload = await either.announced(task, sha256=sha256(b"hello").hexdigest())
    assert await either.names(task) == []
    stored = await either.put(upload)

    assert stored.status_code == 201
    [item] = await either.listed(task)
    assert item == stored.json()
    assert item["sha256"] == sha256(b"hello").hexdigest()
    assert (item["name"], item["run_id"], item["content_type"], item["size"]) == ("a.txt", 0, "text/plain", 5)
    assert (await either.fetch(task)).content == b"hello"
    assert len(either.files) == 1


async def test_c10_a_digest_that_is_announced_later_holds_as_one_that_was_announced_at_first(either: Studio) -> None:
    """What was announced before without one was taken with any bytes, of whoever had the URL."""
    task = await either.started()
    first = await either.announced(task)
    again = await either.announced(task, sha256=sha256(b"hello").hexdigest())

    others = [await either.put(upload, b"world") for upload in (first, again)]
    stored = await either.put(first)

    assert [(answer.status_code, problem(answer)) for answer in others] == [(422, "validation-error")] * 2
    assert again["sha256"] == sha256(b"hello").hexdigest()
    assert stored.status_code == 201
    assert (await either.fetch(task)).content == b"hello"


async def test_c10_after_completed_and_failed_nothing_more_is_taken(either: Studio) -> None:
    for kind in ("completed", "failed"):
        task = await either.started()
        upload = await either.announced(task)
        await either.report(task, kind)

        late, new = await either.put(upload), await either.announce(task, name="b.txt")

        assert (late.status_code, problem(late)) == (409, "artifact-conflict")
        assert (new.status_code, problem(new)) == (409, "artifact-conflict")
        assert await either.names(task) == []
    assert either.files == []


async def test_c10_g10_after_an_exception_19_minutes_are_enough_and_21_too_late(either: Studio) -> None:
    task = await either.started()
    await either.report(task, "exception", reason="resource-unavailable")
    either.clock.advance(19 * 60)
    await either.store(task, name="log.txt")
    late = await either.announced(task, name="later.txt")
    either.clock.advance(2 * 60)

    refused, new = await either.put(late), await either.announce(task, name="new.txt")

    assert (refused.status_code, problem(refused)) == (409, "artifact-conflict")
    assert (new.status_code, problem(new)) == (409, "artifact-conflict")
    assert await either.names(task) == ["log.txt"]


async def test_c10_an_upload_that_races_the_report_is_stored_or_refused_never_something_between(
    either: Studio,
) -> None:
    outcomes = set()
    for turn in range(12):
        task = await either.started()
        upload = await either.announced(task)

        async def report(task: str = task, turn: int = turn) -> None:
            for _ in range(turn % 6):
                await asyncio.sleep(0)
            await either.report(task, "completed")

        answer, _ = await asyncio.gather(either.put(upload), report())

        outcomes.add(answer.status_code)
        if answer.status_code == 201:
            assert (await either.fetch(task)).content == b"hello"
        else:
            assert (answer.status_code, problem(answer)) == (409, "artifact-conflict")
            assert await either.names(task) == []
    assert outcomes <= {201, 409}
    stored = sum([len(await either.names(item["id"])) for item in (await either.root.get("/v1/tasks")).json()["items"]])
    assert len(either.files) == stored


async def taken_up(studio: Studio) -> None:
    """Wait until the server has looked at the run, and takes the bytes."""
    await until(lambda: studio.objects._coming, seconds=20)


async def test_c10_an_upload_whose_run_ends_before_its_last_byte_is_refused(studio: Studio) -> None:
    task = await studio.started()
    upload = await studio.announced(task, bytes(200_000))

    async def slowly() -> AsyncIterator[bytes]:
        yield bytes(100_000)
        await taken_up(studio)
        await studio.report(task, "completed")
        yield bytes(100_000)

    answer = await studio.put(upload, slowly())

    assert (answer.status_code, problem(answer)) == (409, "artifact-conflict")
    assert (await studio.names(task), studio.files) == ([], [])


async def test_c10_a_connection_that_is_cut_halfway_leaves_nothing(studio: Studio) -> None:
    task = await studio.started()
    body = bytes(3_000_000)
    upload = await studio.announced(task, body)

    async def half() -> AsyncIterator[bytes]:
        yield body[:2_500_000]
        raise ConnectionAbortedError("cut")

    with pytest.raises(ConnectionAbortedError):
        await studio.put(upload, half(), **{"Content-Length": str(len(body))})
    await until(lambda: not studio.files, seconds=20)

    assert await studio.names(task) == []
    assert (await studio.put(upload, body)).status_code == 201
    assert len((await studio.fetch(task)).content) == len(body)


async def test_c10_the_same_announcement_twice_is_one_and_another_is_a_conflict(either: Studio) -> None:
    task = await either.started()
    first = await either.announce(task)
    again = await either.announce(task)
    assert (first.status_code, again.status_code) == (201, 200)

    for other in ({"content_type": "text/html"}, {"content_length": 6}):
        refused = await either.announce(task, **other)
        assert (refused.status_code, problem(refused)) == (409, "artifact-conflict")
        assert "has announced, but not uploaded, an artifact 'a.txt' of 5 bytes" in refused.json()["detail"]

    stored = (await either.put(again.json())).json()
    after = await either.announced(task)
    assert (after["stored"], after["put_url"]) == (stored, None)
    other = await either.announce(task, sha256="0" * 64)
    assert (other.status_code, problem(other)) == (409, "artifact-conflict")
    assert "has an artifact 'a.txt' of 5 bytes" in other.json()["detail"]


async def test_c10_the_same_put_twice_is_fine_and_other_bytes_are_refused(studio: Studio) -> None:
    task = await studio.started()
    upload = await studio.announced(task)

    answers = [await studio.put(upload, body) for body in (b"hello", b"hello", b"HELLO")]

    assert [answer.status_code for answer in answers] == [201, 200, 409]
    assert problem(answers[2]) == "artifact-conflict"
    assert (await studio.fetch(task)).content == b"hello"
    assert len(studio.files) == 1


async def test_c10_two_puts_at_once_leave_one_object(studio: Studio) -> None:
    task = await studio.started()
    upload = await studio.announced(task)

    answers = await asyncio.gather(*(studio.put(upload) for _ in range(4)))

    assert {answer.status_code for answer in answers} <= {200, 201}
    assert len(studio.files) == 1
    assert (await studio.fetch(task)).content == b"hello"


NOT_AS_ANNOUNCED = [
    (b"hell", {}),
    (b"hello!", {}),
    (b"hello", {"Content-Type": "text/html"}),
    (b"HELLO", {}),
]
"""Too short, too long, of another type, with another digest."""


async def test_c10_length_type_and_digest_are_enforced_and_the_right_bytes_still_taken(studio: Studio) -> None:
    task = await studio.started()
    upload = await studio.announced(task, sha256=sha256(b"hello").hexdigest())

    for body, headers in NOT_AS_ANNOUNCED:
        refused = await studio.put(upload, body, **headers)
        assert (refused.status_code, problem(refused)) == (422, "validation-error")
        assert (await studio.names(task), studio.files) == ([], [])

    assert (await studio.put(upload)).status_code == 201


async def test_c10_a_stream_that_names_no_length_is_counted(studio: Studio) -> None:
    task = await studio.started()
    upload = await studio.announced(task, bytes(100_000))

    async def stream(length: int) -> AsyncIterator[bytes]:
        yield bytes(length)

    for size in (99_999, 100_001):
        refused = await studio.put(upload, stream(size))
        assert (refused.status_code, problem(refused)) == (422, "validation-error")
        assert studio.files == []

    assert (await studio.put(upload, stream(100_000))).status_code == 201


async def test_c10_an_empty_artifact_is_one_too(studio: Studio) -> None:
    task = await studio.started()

    await studio.store(task, b"")

    answer = await studio.fetch(task)
    assert (answer.status_code, answer.content, answer.headers["content-length"]) == (200, b"", "0")


async def test_c10_a_signed_url_is_good_for_one_upload_method_and_time(studio: Studio) -> None:
    task = await studio.started()
    upload, other = await studio.announced(task), await studio.announced(task, name="b.txt")
    url, query = upload["put_url"].split("?")
    forged = f"{url}?{query[:-1]}{'0' if query[-1] != '0' else '1'}"
    later = f"{url}?{query.replace('expires=', 'expires=1')}"

    for wrong in (url, forged, later, f"{other['put_url'].split('?')[0]}?{query}", f"{url}?expires=x&signature="):
        refused = await studio.nobody.put(wrong, content=b"hello", headers=upload["headers"])
        assert (refused.status_code, problem(refused)) == (403, "forbidden")
    posted = await studio.nobody.post(upload["put_url"])
    assert (posted.status_code, problem(posted)) == (403, "forbidden")
    studio.clock.advance(3601)
    refused = await studio.put(upload)

    assert (refused.status_code, problem(refused)) == (403, "forbidden")
    assert studio.files == []


async def test_c10_an_unknown_upload_is_not_found(studio: Studio) -> None:
    for wrong in ("nonsense", "0199aaaa-0000-7000-8000-000000000000"):
        answer = await studio.nobody.put(f"{studio.served.url}/v1/uploads/{wrong}?expires=1&signature=x", content=b"")
        assert (answer.status_code, problem(answer)) == (404, "artifact-not-found")


async def test_c10_only_the_owner_of_the_runs_worker_uploads(either: Studio) -> None:
    made = (await either.root.post("/v1/tokens", json={"name": "eve"})).json()
    headers = {"Authorization": f"Bearer {made['token']}"}
    wanted = {"name": "a.txt", "content_type": "text/plain", "content_length": 5}
    task = await either.started()

    async with httpx.AsyncClient(base_url=either.served.url, headers=headers) as eve:
        while_open = await eve.post(f"/v1/tasks/{task}/runs/0/artifacts", json=wanted)
        await either.report(task, "exception", reason="internal-error")
        after = await eve.post(f"/v1/tasks/{task}/runs/0/artifacts", json=wanted)

    for refused in (while_open, after):
        assert (refused.status_code, problem(refused)) == (403, "forbidden")


async def test_c10_a_run_that_never_was_uploads_nothing(studio: Studio) -> None:
    task = await studio.started()

    for run, status, name in ((1, 409, "stale-run"), (2**40, 422, "validation-error")):
        answer = await studio.announce(task, run=run)
        assert (answer.status_code, problem(answer)) == (status, name)
    missing = await studio.announce("0199aaaa-0000-7000-8000-000000000000")
    assert (missing.status_code, problem(missing)) == (404, "task-not-found")


async def test_c10_each_run_has_artifacts_of_its_own_and_the_last_runs_go_first(either: Studio) -> None:
    task = await either.started(max_retries=1, retry_base=0)
    await either.store(task, b"one", name="log")
    await either.report(task, "failed", error="no")
    assert (await either.room.start())["run_id"] == 1
    assert (await either.fetch(task, "log")).content == b"one"
    await either.store(task, b"two", name="log", run=1)
    await either.store(task, b"b", name="b", run=1)

    listed = [(item["run_id"], item["name"]) for item in await either.listed(task)]

    assert listed == [(1, "b"), (1, "log"), (0, "log")]
    assert await either.names(task, run=0) == ["log"]
    assert (await either.fetch(task, "log")).content == b"two"
    assert (await either.fetch(task, "log?run=0")).content == b"one"


async def test_c10_an_artifact_may_be_no_larger_than_the_server_takes(studio: Studio) -> None:
    task = await studio.started()

    answer = await studio.announce(task, content_length=5_000_001)

    assert (answer.status_code, problem(answer)) == (413, "payload-too-large")
    assert "5000000" in answer.json()["detail"]


BAD: list[dict[str, object]] = [
    {"content_length": -1},
    {"content_length": "5"},
    {"content_length": 2**63},
    {"content_type": "html"},
    {"content_type": "text/html\r\nX-Evil: 1"},
    {"sha256": "A" * 64},
    {"expires_at": "2025-12-31T00:00:00Z"},
    {"expires_at": 5},
    {"put_url": "x"},
]


async def test_c10_g9_a_bad_announcement_says_what_to_mend(studio: Studio) -> None:
    task = await studio.started()

    for fields in BAD:
        answer = await studio.announce(task, **fields)
        assert (answer.status_code, problem(answer)) == (422, "validation-error")
        assert next(iter(fields)) in answer.json()["detail"]


async def test_c10_an_upload_is_told_to_who_watches_the_task(studio: Studio) -> None:
    task = await studio.started()
    async with connected(studio.served) as socket:
        await socket.call("watch", sub="t", topic="task", task_id=task)
        first = await socket.pushed("snapshot")
        item = await studio.store(task)
        delta = await socket.pushed("delta")

    assert first["rows"][0]["artifacts"] == []
    assert delta["rows"][0]["artifacts"] == [item]


async def test_c10_a_default_expiry_holds_for_what_names_none(studio: Studio) -> None:
    task = await studio.started()
    studio.served.settings.artifacts_expire_seconds = 60

    defaulted = await studio.store(task, name="default")
    named = await studio.store(task, name="named", expires_at="2026-01-02T00:00:00Z")

    assert defaulted["expires_at"] == (studio.clock.now() + timedelta(seconds=60)).isoformat().replace("+00:00", "Z")
    assert named["expires_at"] == "2026-01-02T00:00:00Z"


async def test_c10_an_upload_whose_bytes_stop_coming_is_given_up(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("treadle_server.artifacts.coming.SILENCE", 0.05)
    task = await studio.started()
    upload = await studio.announced(task, bytes(3_000_000))
    released = asyncio.Event()

    async def stalls() -> AsyncIterator[bytes]:
        yield bytes(2_000_000)
        await released.wait()
        yield bytes(1_000_000)

    async def seen() -> None:
        """Let the body go on once the server has given it up, for the client reads its answer only then."""
        await until(lambda: studio.objects._writers._threads and not studio.objects._coming, seconds=20)
        released.set()

    answer, _ = await asyncio.gather(studio.put(upload, stalls()), seen(), return_exceptions=True)

    assert isinstance(answer, httpx.HTTPError) or problem(answer) == "validation-error"
    assert (await studio.names(task), studio.files) == ([], [])


async def test_c10_a_repeated_upload_whose_bytes_stop_coming_is_given_up_too(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It held its connection for as long as its client was there."""
    monkeypatch.setattr("treadle_server.artifacts.coming.SILENCE", 0.05)
    upload = await studio.announced(await studio.started())
    assert (await studio.put(upload)).status_code == 201
    url = httpx.URL(upload["put_url"])
    reader, writer = await asyncio.open_connection(url.host, url.port)
    head = f"PUT {url.raw_path.decode()} HTTP/1.1", "Host: treadle", "Content-Type: text/plain", "Content-Length: 5"

    writer.write("\r\n".join([*head, "", "he"]).encode())
    async with asyncio.timeout(20):
        answer = await reader.readuntil(b"\r\n")

    assert answer.startswith(b"HTTP/1.1 422 ")
    writer.close()


async def test_c10_uploads_that_stand_still_keep_no_other_waiting(studio: Studio) -> None:
    """Each kept a thread of 32, for a minute, and who brings a byte now and then for ever."""
    task = await studio.started()
    released = asyncio.Event()

    async def stalls() -> AsyncIterator[bytes]:
        yield b"h"
        await released.wait()
        yield b"ello"

    stalled = [await studio.announced(task, name=f"{n}.txt") for n in range(MOST_WRITES + 1)]
    putting = asyncio.gather(*(studio.put(upload, stalls()) for upload in stalled))
    await until(lambda: len(studio.objects._coming) == len(stalled), seconds=20)

    async with asyncio.timeout(20):
        await studio.store(task, name="quick.txt")

    released.set()
    assert {answer.status_code for answer in await putting} == {201}
    assert len(await studio.names(task)) == len(stalled) + 1


async def test_c10_more_uploads_than_there_is_room_for_come_one_after_the_other(studio: Studio) -> None:
    studio.objects._room = asyncio.Semaphore(1)
    task = await studio.started()

    await asyncio.gather(*(studio.store(task, name=f"{n}.txt") for n in range(4)))

    assert len(await studio.names(task)) == 4


async def test_c10_a_server_that_stops_ends_the_uploads_that_are_under_way(studio: Studio) -> None:
    task = await studio.started()
    upload = await studio.announced(task, bytes(3_000_000))
    half_way = asyncio.Event()

    async def stalls() -> AsyncIterator[bytes]:
        yield bytes(2_000_000)
        half_way.set()
        await asyncio.Event().wait()

    putting = asyncio.ensure_future(studio.put(upload, stalls()))
    await half_way.wait()
    await taken_up(studio)

    await studio.objects.close()
    putting.cancel()
    await asyncio.gather(putting, return_exceptions=True)

    assert not studio.objects._coming
    assert not any(thread.is_alive() for thread in studio.objects._writers._threads)
    assert studio.files == []
