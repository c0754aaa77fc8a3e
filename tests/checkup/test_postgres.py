"""Settings of PostgreSQL that lose what it has acknowledged, and a PostgreSQL that takes no writes or connections."""

import asyncio
from collections.abc import Iterator
from typing import Any

import asyncpg
import pytest

from tests.checkup.conftest import Examine, execute
from treadle_server.checkup import postgres

pytestmark = pytest.mark.parametrize(
    "spoilt_url", [pytest.param("postgres", marks=pytest.mark.postgres)], indirect=True
)


def shown(url: str, setting: str) -> str:
    """Return a setting of the server."""

    async def asked() -> str:
        connection = await asyncpg.connect(url)
        try:
            return await connection.fetchval(f"SHOW {setting}")
        finally:
            await connection.close()

    return asyncio.run(asked())


def name_of(url: str) -> str:
    return url.partition("?")[0].rpartition("/")[2]


def test_a_postgresql_that_does_not_sync_is_found_g1(examined: Examine, spoilt_url: str) -> None:
    """The one that the tests start does not; a database or role may be set to acknowledge too early."""
    execute(spoilt_url, f'ALTER DATABASE "{name_of(spoilt_url)}" SET synchronous_commit = off')

    *unsynced, acknowledged = [one for one in examined()["database"] if one.grade == "fail"]

    # One that the environment names may sync.
    assert ["fsync is off" in one.detail for one in unsynced] == [True] * (shown(spoilt_url, "fsync") == "off")
    assert "synchronous_commit is off" in acknowledged.detail
    assert "synchronous_commit = on" in acknowledged.advice


def test_a_database_whose_sessions_keep_no_foreign_keys_is_found(examined: Examine, spoilt_url: str) -> None:
    execute(spoilt_url, f'ALTER DATABASE "{name_of(spoilt_url)}" SET session_replication_role = replica')

    [finding] = [one for one in examined()["database"] if "foreign keys" in one.detail]

    assert (finding.grade, finding.detail) == ("fail", "session_replication_role is replica: foreign keys are not kept")
    assert finding.advice == "set session_replication_role = origin, for the server, the database and the role"


def test_few_connections_are_needed(examined: Examine, spoilt_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each check had one of its own: where few were left, some of the checks themselves found no more."""
    made, connect = list[str](), asyncpg.connect

    async def counted(*given: Any, **named: Any) -> Any:
        made.append("")
        return await connect(*given, **named)

    monkeypatch.setattr(asyncpg, "connect", counted)
    found = examined()

    assert {"database", "migrations", "counts", "snapshots", "clocks"} <= found.keys()
    assert len(made) == 2


def test_its_version_size_and_disk_are_told(examined: Examine) -> None:
    found = examined()

    assert "PostgreSQL 1" in found["database"][0].detail
    assert any("PostgreSQL" in one.detail and "free" in one.detail for one in found["disk"])


def test_a_schema_of_any_name_is_looked_into(examined: Examine, spoilt_url: str) -> None:
    """The checks of one with a hyphen said that they could not be made."""
    execute(
        spoilt_url,
        'ALTER SCHEMA public RENAME TO "A-Team"',
        f'ALTER DATABASE "{name_of(spoilt_url)}" SET search_path = "A-Team"',
    )

    found = examined()

    assert [one for check in ("database", "migrations") for one in found[check] if "could not be" in one.detail] == []


def test_tables_in_a_schema_that_is_not_looked_at_are_found(examined: Examine, spoilt_url: str) -> None:
    """It said that the database is empty, and that the first server creates its tables."""
    execute(spoilt_url, "ALTER SCHEMA public RENAME TO restored", "CREATE SCHEMA public")

    [finding] = examined()["migrations"]

    assert finding.grade == "fail"
    assert "in the schema restored, which is not in the search_path" in finding.detail


def test_one_that_lets_nobody_in_is_told_with_what_to_do_about_that(
    examined: Examine, spoilt_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it had answered, one was told to look whether it runs, and at the network."""
    name = name_of(spoilt_url)
    monkeypatch.setenv("TREADLE_DATABASE_URL", spoilt_url.replace(name, f"{name}_else"))

    [finding] = examined()["database"]

    assert f'database "{name}_else" does not exist' in finding.detail
    assert "CREATE DATABASE" in finding.advice
    assert "network" not in finding.advice


def test_a_version_that_nobody_mends_is_found(examined: Examine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "OLDEST", 990_000)

    assert any("no longer maintained" in one.detail and one.grade == "warn" for one in examined()["database"])


def test_connections_that_are_nearly_all_taken_are_found(examined: Examine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "NEARLY_ALL", 0.0)

    assert any("connections are in use" in one.detail and one.grade == "warn" for one in examined()["database"])


def test_connections_that_a_limit_of_the_database_leaves_are_counted_too(examined: Examine, spoilt_url: str) -> None:
    """Only those of the whole server were: who had nearly reached such a limit was told that all is well."""
    execute(spoilt_url, f'ALTER DATABASE "{name_of(spoilt_url)}" CONNECTION LIMIT 1')  # superusers pass it

    found = [one for one in examined()["database"] if "of 1 connections to the database" in one.detail]

    assert [(one.grade, "CONNECTION LIMIT" in one.advice) for one in found] == [("warn", True)]


def test_an_encoding_that_can_not_keep_every_text_is_found(examined: Examine, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not any("encoding" in one.detail for one in examined()["database"])
    monkeypatch.setattr(postgres, "ENCODING", "LATIN1")

    assert any("its encoding is UTF8" in one.detail and one.grade == "fail" for one in examined()["database"])


def with_option(url: str, option: str) -> str:
    """Return the URL with a setting of the sessions that are opened by it."""
    return f"{url}{'&' if '?' in url else '?'}options=-c%20{option.replace('=', '%3D')}"


@pytest.fixture
def weak_role(spoilt_url: str) -> Iterator[str]:
    """A role that owns nothing, and was given nothing but to look."""
    role = f"weak_{name_of(spoilt_url)}"
    execute(spoilt_url, f'CREATE ROLE "{role}" IN ROLE pg_read_all_data')
    yield role
    execute(spoilt_url, f'DROP ROLE "{role}"')


@pytest.mark.parametrize("is_empty", [False, True])
def test_a_role_that_may_not_do_what_a_server_does_is_found(
    examined: Examine, spoilt_url: str, weak_role: str, is_empty: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_empty:
        execute(spoilt_url, "DROP SCHEMA public CASCADE", "CREATE SCHEMA public")
    assert not any("the role" in one.detail for one in examined()["database"])
    monkeypatch.setenv("TREADLE_DATABASE_URL", with_option(spoilt_url, f"role={weak_role}"))

    [told] = [one.detail for one in examined()["database"] if "the role" in one.detail and one.grade == "fail"]

    what = "may make no tables in the schema public" if is_empty else "may not change the table artifacts"
    assert f"the role {weak_role} {what}" in told


def test_what_a_role_may_not_look_at_is_told_with_what_to_do(
    examined: Examine, spoilt_url: str, weak_role: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the driver's error is called in Python was told of a restore as another owner."""
    execute(spoilt_url, f'REVOKE pg_read_all_data FROM "{weak_role}"')
    monkeypatch.setenv("TREADLE_DATABASE_URL", with_option(spoilt_url, f"role={weak_role}"))

    found = examined()

    assert "make it the owner of the database or its schema (permission denied" in found["migrations"][0].detail
    assert "make it the owner of the database or its schema (permission denied" in found["counts"][0].detail


def test_a_role_from_which_row_security_hides_tasks_is_found(
    examined: Examine, spoilt_url: str, weak_role: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who is not the owner sees none, and all that was told is that the kept counts are wrong."""
    execute(
        spoilt_url,
        f'GRANT ALL ON ALL TABLES IN SCHEMA public TO "{weak_role}"',
        f'GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO "{weak_role}"',
        "ALTER TABLE tasks ENABLE ROW LEVEL SECURITY",
    )
    monkeypatch.setenv("TREADLE_DATABASE_URL", with_option(spoilt_url, f"role={weak_role}"))

    told = [one.detail for one in examined()["database"] if one.grade == "fail"]
    execute(spoilt_url, f'DROP OWNED BY "{weak_role}"')

    assert any(f"the role {weak_role} does not see all rows of the table tasks" in one for one in told)


def test_a_role_that_may_change_the_tables_and_not_count_by_the_sequences_is_found(
    examined: Examine, spoilt_url: str, weak_role: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    execute(spoilt_url, f'GRANT ALL ON ALL TABLES IN SCHEMA public TO "{weak_role}"')
    monkeypatch.setenv("TREADLE_DATABASE_URL", with_option(spoilt_url, f"role={weak_role}"))

    [told] = [one.detail for one in examined()["database"] if "the role" in one.detail and one.grade == "fail"]
    execute(spoilt_url, f'REVOKE ALL ON ALL TABLES IN SCHEMA public FROM "{weak_role}"')

    assert f"the role {weak_role} may not count by the sequence count_deltas_id" in told


def test_sessions_that_take_no_writes_are_found(
    examined: Examine, spoilt_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TREADLE_DATABASE_URL", with_option(spoilt_url, "default_transaction_read_only=on"))

    assert any("read_only is on" in one.detail and one.grade == "fail" for one in examined()["database"])


def test_another_treadle_in_another_schema_is_found(examined: Examine, spoilt_url: str) -> None:
    assert not any("schemas" in one.detail for one in examined()["database"])
    execute(spoilt_url, "CREATE SCHEMA other; CREATE TABLE other.lane_counts ()")

    assert any("in the schemas other, public of" in one.detail for one in examined()["database"] if one.grade == "fail")


def test_a_clock_that_differs_is_found(examined: Examine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "SKEW", -1.0)

    [finding] = examined()["clocks"]

    assert (finding.grade, finding.advice) == ("warn", "synchronise both by NTP")
