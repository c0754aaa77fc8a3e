"""Fetching: parts, what is known, names, and headers with which no browser runs what a task has stored (C10)."""

from collections.abc import Iterator
from urllib.parse import quote

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from obstore.exceptions import GenericError
from starlette.datastructures import Headers

from tests.artifacts.studio import Studio, problem
from treadle.wire.artifacts import check_artifact_name
from treadle_server.api.ranges import disposition, span_of
from treadle_server.errors import RangeNotSatisfiable

HTML = b"<script>fetch('/v1/tokens')</script>"


async def test_c10_stored_html_can_not_run_on_the_servers_origin(studio: Studio) -> None:
    task = await studio.started()
    await studio.store(task, HTML, name="report/index.html", content_type="text/html")

    answer = await studio.fetch(task, "report/index.html")

    assert answer.content == HTML
    assert answer.headers["content-type"] == "text/html"
    assert answer.headers["content-disposition"].startswith('attachment; filename="index.html"')
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-security-policy"].startswith("sandbox;")


async def test_c10_parts_of_an_artifact_can_be_asked_for(studio: Studio) -> None:
    task = await studio.started()
    await studio.store(task, b"0123456789")
    etag = (await studio.fetch(task)).headers["etag"]

    part = await studio.fetch(task, Range="bytes=2-4")
    rest = await studio.fetch(task, Range="bytes=7-", **{"If-Range": etag})
    last = await studio.fetch(task, Range="bytes=-3")
    changed = await studio.fetch(task, Range="bytes=7-", **{"If-Range": '"another"'})

    assert (part.status_code, part.content, part.headers["content-range"]) == (206, b"234", "bytes 2-4/10")
    assert (rest.status_code, rest.content) == (206, b"789")
    assert (last.status_code, last.content) == (206, b"789")
    assert (changed.status_code, changed.content) == (200, b"0123456789")


@pytest.mark.parametrize("asked", ["bytes=10-", "bytes=10-12", "bytes=99999999999-", "bytes=-0", "BYTES=10-"])
async def test_c10_a_part_behind_the_end_is_refused_with_the_length(studio: Studio, asked: str) -> None:
    task = await studio.started()
    await studio.store(task, b"0123456789")

    refused = await studio.fetch(task, Range=asked)
    of_another = await studio.fetch(task, Range=asked, **{"If-Range": '"another"'})

    assert (refused.status_code, problem(refused)) == (416, "range-not-satisfiable")
    assert refused.headers["content-range"] == "bytes */10"
    assert (of_another.status_code, of_another.content) == (200, b"0123456789")


@pytest.mark.parametrize("asked", ["bytes=", "bytes=-", "bytes=5-2", "bytes=0-1,4-5", "lines=0-1", "bytes=٣-", "0-1"])
async def test_c10_what_names_no_part_is_answered_by_all(studio: Studio, asked: str) -> None:
    task = await studio.started()
    await studio.store(task, b"0123456789")

    answer = await studio.root.get(f"/v1/tasks/{task}/artifacts/a.txt", headers={b"Range": asked.encode()})

    assert (answer.status_code, answer.content) == (200, b"0123456789")


async def test_c10_a_part_of_nothing_is_all_of_it(studio: Studio) -> None:
    task = await studio.started()
    await studio.store(task, b"")

    answer = await studio.fetch(task, Range="bytes=0-99")

    assert (answer.status_code, answer.content) == (200, b"")


async def test_c10_whoever_has_the_bytes_already_is_told_so_and_sent_none(studio: Studio) -> None:
    task = await studio.started()
    await studio.store(task, b"0123456789")
    first = await studio.fetch(task)
    etag = first.headers["etag"]

    for known in (etag, f"W/{etag}", "*", f'"another", {etag}'):
        again = await studio.fetch(task, Range="bytes=2-4", **{"If-None-Match": known})
        assert (again.status_code, again.content) == (304, b""), known
        assert (again.headers["etag"], again.headers["cache-control"]) == (etag, first.headers["cache-control"])
    other = await studio.fetch(task, **{"If-None-Match": '"another"'})
    assert (other.status_code, other.content) == (200, b"0123456789")
    hidden = await studio.nobody.get(
        f"{studio.served.url}/v1/tasks/{task}/artifacts/a.txt", headers={"If-None-Match": "*"}
    )
    assert hidden.status_code == 401


@given(
    st.integers(0, 30),
    st.text("bytes=-0123456789, ", max_size=20) | st.from_regex(r"bytes=[0-9]{0,2}-[0-9]{0,2}", fullmatch=True),
)
def test_a_range_is_a_part_that_there_is_or_all_or_refused_with_the_length(size: int, header: str) -> None:
    try:
        span = span_of("GET", Headers({"range": header}), size, '"x"')
    except RangeNotSatisfiable as error:
        span, told = None, error.size
    else:
        told = span.size

    assert told == size
    if span is not None:
        assert 0 <= span.start <= span.end <= size
        assert span.is_part or (span.start, span.end) == (0, size)
        assert not span.is_part or span.start < span.end


async def test_c10_a_head_has_the_headers_and_no_bytes(studio: Studio) -> None:
    task = await studio.started()
    await studio.store(task, b"0123456789")

    for headers in ({}, {"Range": "bytes=2-4"}, {"Range": "bytes=99-"}):
        answer = await studio.root.head(f"/v1/tasks/{task}/artifacts/a.txt", headers=headers)

        assert (answer.status_code, answer.headers["content-length"], answer.content) == (200, "10", b"")
        assert "content-range" not in answer.headers


async def test_c10_what_is_not_there_is_not_found(studio: Studio) -> None:
    task = await studio.started()
    await studio.announced(task, name="halfway")

    for name in ("nothing", "halfway", "a.txt?run=7"):
        answer = await studio.fetch(task, name)
        assert (answer.status_code, problem(answer)) == (404, "artifact-not-found")
    missing = await studio.fetch("0199aaaa-0000-7000-8000-000000000000")
    assert (missing.status_code, problem(missing)) == (404, "task-not-found")


async def test_c10_an_object_that_was_taken_from_the_store_is_not_found(
    either: Studio, caplog: pytest.LogCaptureFixture
) -> None:
    """That another server may have it in its own data directory was not said, and to who runs the servers nothing."""
    task = await either.started()
    await either.store(task)
    either.files[0].unlink()

    answer = await either.fetch(task)

    assert (answer.status_code, problem(answer)) == (404, "artifact-not-found")
    is_one_of_several = either.served.engine.store.dialect == "postgresql"
    assert ("all servers need the same TREADLE_ARTIFACTS" in answer.json()["detail"]) == is_one_of_several
    [warned] = caplog.messages
    assert warned.endswith(answer.json()["detail"])


HOSTILE = [
    "",
    ".",
    "..",
    "../token",
    "a/../../token",
    "/etc/passwd",
    "a//b",
    "a/",
    "./a",
    "a\\b",
    "..\\token",
    "C:\\token",
    "a\nb",
    "a\x1b[31m",
    "a\x7fb",
    "a\u202egpj.exe",
    "a\ud800",
    "a\x00b",
    "x" * 256,
]


async def test_c10_an_object_that_was_cut_short_in_the_store_is_not_found(studio: Studio) -> None:
    """Its answer would end before the length that it told, and the log told of a defect."""
    task = await studio.started()
    await studio.store(task, b"0123456789")
    studio.files[0].write_bytes(b"01234")

    whole, part = await studio.fetch(task), await studio.fetch(task, Range="bytes=0-4")

    assert (whole.status_code, problem(whole)) == (404, "artifact-not-found")
    assert (part.status_code, part.content) == (206, b"01234")


async def test_c10_path_tricks_and_control_characters_are_refused(studio: Studio) -> None:
    task = await studio.started()

    for name in HOSTILE:
        answer = await studio.announce(task, name=name) if "\ud800" not in name else await _raw(studio, task)
        assert (answer.status_code, problem(answer)) == (422, "validation-error"), ascii(name)

    assert (await studio.names(task), studio.files) == ([], [])


async def _raw(studio: Studio, task: str):  # type: ignore[no-untyped-def]
    body = rb'{"name": "a\ud800", "content_type": "text/plain", "content_length": 5}'
    return await studio.root.post(f"/v1/tasks/{task}/runs/0/artifacts", content=body)


ODD = ["a b.txt", "ä/ö+%41.txt", 'a;b="c".txt', "...", "-rf", "x" * 255, "con/aux:1?#&"]


async def test_c10_an_odd_name_is_kept_as_it_is(studio: Studio) -> None:
    task = await studio.started()

    for name in ODD:
        await studio.store(task, name.encode(), name=name)

    assert sorted(await studio.names(task)) == sorted(ODD)
    for name in ODD:
        answer = await studio.fetch(task, quote(name))
        assert (answer.status_code, answer.content) == (200, name.encode())
    assert len(studio.files) == len(ODD)


@given(st.text(max_size=300))
def test_a_name_that_is_taken_is_a_relative_path_without_tricks(name: str) -> None:
    try:
        check_artifact_name(name)
    except ValueError:
        return

    assert 0 < len(name) <= 255
    assert not {"", ".", ".."} & set(name.split("/"))
    assert "\\" not in name
    assert name.isprintable()
    header = disposition(name)
    assert header.isascii()
    assert header.count('"') == 2


class Breaks:
    """A store whose connection breaks behind the first piece of an object."""

    def __init__(self, size: int) -> None:
        self._size = size

    def get(self, _location: str, **_: object) -> "Breaks":
        return self

    @property
    def meta(self) -> dict[str, int]:
        return {"size": self._size}

    def stream(self, **_: object) -> Iterator[bytes]:
        yield b"01234"
        raise GenericError("the body ended early")


async def test_c10_a_store_that_fails_in_the_midst_cuts_the_download_off_and_is_no_defect_of_the_server(
    studio: Studio, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It was told as an exception in the application, with all of its traceback."""
    task = await studio.started()
    await studio.store(task, b"0123456789")
    monkeypatch.setattr(studio.objects, "_store", Breaks(10))

    with pytest.raises(httpx.RemoteProtocolError):
        await studio.fetch(task)

    assert "the artifact store failed: the body ended early" in caplog.messages
    assert [record for record in caplog.records if record.exc_info] == []
