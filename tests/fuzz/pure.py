"""Targets that need no server: languages, names, models of the wire, and what is shown on a terminal.

Each gives a value or raises its one documented error, in no time; what was read is written so that it is read again.
"""

# ruff: noqa: PT017 - whether an error comes is not what is asked, but which one

import json
import unicodedata
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st
from pydantic import ValidationError
from pydantic_core import to_json
from starlette.datastructures import Headers

from tests.fuzz.target import Target
from tests.fuzz.values import JSON, TEXTS, bent, spoken
from tests.golden.samples import sample, wire_models
from treadle import filters
from treadle.wire import tags
from treadle.wire.artifacts import check_artifact_name, check_media_type
from treadle.wire.filters import TaskFilter
from treadle.wire.names import InvalidJobName, InvalidRoom, parse_job_name, parse_room
from treadle.wire.shown import clean, clean_json, clean_lines
from treadle.wire.status import Status
from treadle.wire.values import fault, is_kept
from treadle_server.access.scopes import check_scopes
from treadle_server.api.ranges import disposition, span_of
from treadle_server.domain.schedules import cron_tick, zone_of
from treadle_server.errors import RangeNotSatisfiable, ValidationFailed
from treadle_server.services.relay import codec
from treadle_server.store.urls import parse_url
from treadle_tui.core.verbs.commands import CommandError, read_command

NOW = datetime(2026, 3, 29, 0, 59, 59, tzinfo=UTC)

TASK = {
    "id": "0199a5b4-0000-7000-8000-000000000001",
    "status": "pending",
    "job_name": "lab:tasks:add",
    "room_id": "lab",
    "tags": {"region": {"name": "eu"}, "n": 1},
    "payload": {"n": 1},
}

MODELS = {name: (model, sample(name, model)) for name, model in sorted(wire_models().items())}


def _filter(text: str) -> None:
    filters.complete(text, {"job": lambda: ["lab:tasks:add"]})
    try:
        read = filters.parse(text)
    except filters.FilterError as error:
        assert str(error)
        assert 0 <= error.at <= len(text)
        return
    written = filters.write(read)
    assert filters.parse(written) == read, written
    filters.matches(read, TASK)


def _task_filter(fields: dict[str, Any]) -> None:
    """A filter that no text was read for is written so that it is read again."""
    try:
        given = TaskFilter.model_validate(fields)
    except ValidationError:
        return
    if "" in [*(given.tag or ()), *(given.not_tag or ())] or given.status == [] or _is_empty(given):
        # They find nothing, and nobody writes them.
        return
    if given.status is not None:
        given = given.model_copy(update={"status": filters.ordered(given.status)})
    assert filters.parse(filters.write(given)) == given, filters.write(given)


def _is_empty(given: TaskFilter) -> bool:
    """Whether a list in it is empty: that is written as if it were not there."""
    return [] in dict(given).values()


def _names(text: str) -> None:
    try:
        assert parse_room(text) == text
    except InvalidRoom as error:
        assert str(error).isprintable()
    try:
        name = parse_job_name(text)
    except InvalidJobName as error:
        assert str(error).isprintable()
    else:
        assert str(name) == text
        assert parse_job_name(str(name)) == name


def _cron(case: tuple[str, str | None]) -> None:
    expression, zone = case
    try:
        zone_of(zone)
        ticks = [cron_tick(expression, zone, NOW)]
        ticks += [cron_tick(expression, zone, ticks[0])] if ticks[0] is not None else []
    except ValidationFailed as error:
        assert error.detail.startswith(("cron: ", "zone: "))
        return
    times = [NOW, *(tick for tick in ticks if tick is not None)]
    assert times == sorted(set(times))
    assert all(tick.utcoffset() == timedelta(0) for tick in times)


def _model(case: tuple[str, Any]) -> None:
    """What a model takes it writes as JSON that it takes again, and as the same."""
    name, value = case
    model, _ = MODELS[name]
    text = json.dumps(value)
    try:
        read = model.model_validate_json(text)
    except ValidationError as error:
        assert error.errors(include_url=False, include_context=False)
        return
    written = read.model_dump_json(exclude_unset=True, by_alias=True)
    again = model.model_validate_json(written)
    assert again.model_dump_json(exclude_unset=True, by_alias=True) == written


def _tags(case: tuple[dict[str, Any], str]) -> None:
    found, wanted = case
    try:
        tags.check(found)
    except ValueError as error:
        assert str(error)
        return
    tags.has(found, wanted)
    for shown in tags.shown(found):
        assert "=" in shown
    for path, word in tags.entries(found):
        if word.startswith("s") and "=" not in path:
            assert tags.has(found, f"{path}={word[1:]}")


def _artifact(case: tuple[str, str]) -> None:
    name, media = case
    try:
        check_artifact_name(name)
    except ValueError as error:
        assert str(error)
    else:
        header = disposition(name)
        assert header.isascii()
        assert header.isprintable()
        assert not name.startswith("/")
        assert ".." not in name.split("/")
    try:
        check_media_type(media)
    except ValueError as error:
        assert str(error)
    else:
        # It becomes a header.
        assert media.isascii()
        assert media.isprintable()


def _range(case: tuple[str, int]) -> None:
    header, size = case
    headers = Headers(raw=[(b"range", header.encode("latin-1", "replace"))])
    try:
        span = span_of("GET", headers, size, '"etag"')
    except RangeNotSatisfiable:
        return
    assert 0 <= span.start <= span.end <= size
    assert span.is_part or (span.start, span.end) == (0, size)


OBEYED = frozenset({"Cc", "Cs", "Zl", "Zp"})
TURNED = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c\ufeff\u200b")


def _harmless(text: str) -> bool:
    return not any(unicodedata.category(char) in OBEYED or char in TURNED for char in text)


def _shown(text: str) -> None:
    once = clean(text)
    assert _harmless(once)
    assert clean(text, ascii_only=True).isascii()
    assert clean(text, limit=5) == clean(text[:5])
    lines = clean_lines(text).split("\n")
    assert all(_harmless(line) for line in lines)
    assert all(line.startswith("  ") or not line for line in lines[1:])


def _shown_json(value: Any) -> None:
    text = clean_json(json.dumps(value, ensure_ascii=False))
    assert _harmless(text)
    assert json.dumps(json.loads(text)) == json.dumps(value)


def _scopes(scopes: list[str]) -> None:
    try:
        kept = check_scopes(scopes)
    except ValidationFailed as error:
        assert error.detail
    else:
        assert set(kept) == set(scopes)


def _notice(text: str) -> None:
    try:
        codec.read(text)
    except ValueError as error:
        assert str(error)


def _database_url(text: str) -> None:
    try:
        parse_url(text)
    except ValidationFailed as error:
        assert error.detail


def _command(line: str) -> None:
    try:
        read_command(line)
    except CommandError as error:
        assert str(error)


def _value(value: Any) -> None:
    """A value has a fault unless it is kept, and what is kept can be sent."""
    found = fault(value)
    assert (found is None) == is_kept(value)
    if found is None:
        json.dumps(value).encode()
        assert json.loads(to_json(value)) == value
    else:
        assert found.why


FILTER_WORDS = [
    *("status:", "job:", "room:", "target:", "worker:", "tag:", "tag.", "id:", "pending", "open", ",", "-", "<", ">"),
    *("tries:", "created:", "started:", "ended:", "duration:", "1h", "2026-01-31", "T12:00", "9999-12-31", "5m"),
    *(" ", '"', "\\", "=", ":", ".", "a", "@global:tasks:bill", "region.name", "1e400", "9" * 30),
]
CRON_WORDS = [
    *("*", "0", "1", "59", "60", "5,10", "1-5", "*/5", "/", "-", ",", "L", "LW", "5L", "MON#2", "MON", "JAN"),
    *(" ", " ", " ", "31", "2", "#", "W", "7", "0 3 * * *", "* * * * *", "30 1 29 2 *"),
]
CRON_FIELDS = ["*", "0", "1", "5,10", "1-5", "*/5", "L", "MON#2", "MON", "JAN", "29", "7", "31", "*/400", "5-1", "LW"]
CRONS = st.one_of(spoken(CRON_WORDS), st.lists(st.sampled_from(CRON_FIELDS), min_size=5, max_size=6).map(" ".join))
ZONES = [None, "UTC", "Europe/Berlin", "Africa/Casablanca", "Australia/Lord_Howe", "../etc/passwd", "", "/", "posix"]
MEDIA_WORDS = ["text/", "plain", ";", " ", "\n", "\t", "charset=x"]
MEDIA = st.one_of(
    st.sampled_from(["text/plain", "a/a; charset=x", "a/a\t;x"]),
    spoken(MEDIA_WORDS),
    st.lists(st.sampled_from(MEDIA_WORDS), max_size=6).map("".join),
)
NAMES = st.one_of(
    st.sampled_from(["a", "a/ä.txt", "a/%2e", '"']),
    spoken(["a", "/", ".", "..", "\\"]),
    st.text(st.sampled_from("a/.ä€ %;\"'\u202e\u2028"), max_size=8),
)
COMMAND_WORDS = [":", "pause", "cancel", "filter", "room", "job", "sort", " ", '"', "\\", "help", "q", "open"]
URL_WORDS = ["postgresql://", "sqlite:///", "@", ":", "/", "?", "host=", ",", "[::1]", "a", "5432", "%", "+asyncpg"]

_FIELDS = st.dictionaries(
    st.sampled_from(["status", "job", "room", "target", "worker", "tag", "id", "text"]),
    st.one_of(TEXTS, st.lists(st.sampled_from([str(one) for one in Status]), max_size=3)),
    max_size=4,
)

TARGETS = [
    Target("filter", spoken(FILTER_WORDS), _filter),
    Target("task_filter", _FIELDS, _task_filter),
    Target("names", spoken(["@global", "@internal", ":", "/", "lab", "tasks", "a"]), _names),
    Target("cron", st.tuples(CRONS, st.one_of(st.sampled_from(ZONES), TEXTS)).map(list), _cron),
    Target(
        "model",
        st.sampled_from(sorted(MODELS)).flatmap(lambda name: st.tuples(st.just(name), bent(MODELS[name][1]))).map(list),
        _model,
    ),
    Target("tags", st.tuples(st.dictionaries(TEXTS, JSON, max_size=4), TEXTS).map(list), _tags),
    Target("artifact", st.tuples(NAMES, MEDIA).map(list), _artifact),
    Target("range", st.tuples(spoken(["bytes=", "-", "0", "9" * 18, ",", " "]), st.integers(0, 100)).map(list), _range),
    Target("shown", TEXTS, _shown),
    Target("shown_json", JSON, _shown_json),
    Target("scopes", st.lists(spoken(["queue:", "read:", "*", "lab"]), max_size=4), _scopes),
    Target("notice", spoken(['{"', '":', "[", "]", "}", '"', ",", "1", "server", "tasks", "-", "p1"]), _notice),
    Target("database_url", spoken(URL_WORDS), _database_url),
    Target("command", spoken(COMMAND_WORDS), _command),
    Target("value", JSON, _value),
]
