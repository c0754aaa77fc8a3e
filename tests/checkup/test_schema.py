"""Databases behind this version, ahead of it, and half way between."""

import asyncio

import asyncpg
import pytest

from tests.checkup.conftest import Examine, execute
from treadle_server.errors import ValidationFailed
from treadle_server.store.migrations import HEAD, LOCK, REVISIONS
from treadle_server.store.store import SqlStore


def note(revision: str) -> str:
    return f"UPDATE alembic_version SET version_num = '{revision}'"


@pytest.mark.parametrize(
    ("spoiling", "grade", "words"),
    [
        ([note(REVISIONS[-3])], "warn", f"at {REVISIONS[-3]}, 2 behind this version's {HEAD}"),
        ([note("9999")], "fail", "a newer one has migrated it"),
        (["DELETE FROM alembic_version"], "fail", "has tables, but no revision of Treadle: give Treadle a"),
        (["INSERT INTO alembic_version VALUES ('0001')"], "fail", f"0001 and {HEAD} are noted"),
        (["DROP TABLE past_outcomes"], "fail", "lacks past_outcomes"),
        (["DROP INDEX ix_tasks_due"], "fail", "lacks ix_tasks_due"),
        (["DROP INDEX ix_tasks_run_limit"], "fail", "lacks ix_tasks_run_limit"),
        (["DROP VIEW treadle_runs"], "fail", "lacks treadle_runs"),
        (["DROP VIEW treadle_tasks", "ALTER TABLE task_specs DROP COLUMN trace"], "fail", "lacks task_specs.trace"),
    ],
    ids=["behind", "ahead", "none", "two", "table", "index", "index_of_a_migration", "view", "column"],
)
def test_what_is_not_this_versions_is_found_f8(
    spoiling: list[str], grade: str, words: str, examined: Examine, spoilt_url: str
) -> None:
    assert [one.grade for one in examined()["migrations"]] == ["ok"]
    execute(spoilt_url, *spoiling)

    [finding] = examined()["migrations"]

    assert words in finding.detail
    assert finding.grade == grade


def test_a_database_with_two_revisions_is_left_as_it_is(spoilt_url: str) -> None:
    execute(spoilt_url, "INSERT INTO alembic_version VALUES ('0001')")

    with pytest.raises(
        ValidationFailed, match=f"0001 and {HEAD} are noted, but only one should be: .*restore a backup"
    ):
        asyncio.run(opened(spoilt_url))


async def opened(url: str) -> None:
    store = SqlStore(url)
    try:
        await store.open()
    finally:
        await store.close()


def test_an_empty_database_is_well(empty_database_url: str, examined: Examine, monkeypatch: pytest.MonkeyPatch) -> None:
    if empty_database_url.startswith("sqlite"):
        execute(empty_database_url, "PRAGMA user_version = 1")
    monkeypatch.setenv("TREADLE_DATABASE_URL", empty_database_url)

    found = examined()

    assert "the first server creates its tables" in found["migrations"][0].detail
    assert [one.grade for one in found["counts"]] == ["ok"]


@pytest.mark.parametrize(
    ("spoiling", "name"),
    [
        ("ALTER TABLE task_steps DROP CONSTRAINT pk_task_steps", "pk_task_steps"),
        ("ALTER TABLE tokens DROP CONSTRAINT uq_tokens_digest", "uq_tokens_digest"),
        ("ALTER TABLE task_tags DROP CONSTRAINT fk_task_tags_task_seq", "fk_task_tags_task_seq"),
        ("ALTER TABLE tasks DROP CONSTRAINT ck_tasks_ck_tasks_status_known", "ck_tasks_status_known"),
        ("ALTER TABLE limits DROP CONSTRAINT ck_limits_rate_whole", "ck_limits_rate_whole"),
        ("DROP SEQUENCE treadle_task_seq", "treadle_task_seq"),
    ],
)
@pytest.mark.parametrize("spoilt_url", [pytest.param("postgres", marks=pytest.mark.postgres)], indirect=True)
def test_a_key_or_a_sequence_that_a_restore_did_not_come_to_is_found(
    examined: Examine, spoilt_url: str, spoiling: str, name: str
) -> None:
    execute(spoilt_url, spoiling)

    [finding] = examined()["migrations"]

    assert (finding.grade, f"lacks {name}" in finding.detail) == ("fail", True)


@pytest.mark.parametrize("spoilt_url", [pytest.param("postgres", marks=pytest.mark.postgres)], indirect=True)
def test_an_index_that_was_never_finished_is_found(examined: Examine, spoilt_url: str) -> None:
    # A schema that is called as the role is comes first in the search path, and hides no tables.
    execute(
        spoilt_url,
        "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'ix_tasks_due'::regclass",
        "CREATE SCHEMA postgres",
    )

    [finding] = examined()["migrations"]

    assert (finding.grade, "ix_tasks_due" in finding.detail) == ("fail", True)


@pytest.mark.parametrize("spoilt_url", [pytest.param("postgres", marks=pytest.mark.postgres)], indirect=True)
def test_a_key_that_was_never_checked_is_found(examined: Examine, spoilt_url: str) -> None:
    key = "fk_task_tags_task_seq FOREIGN KEY (task_seq) REFERENCES tasks ON DELETE CASCADE NOT VALID"
    execute(
        spoilt_url,
        "ALTER TABLE task_tags DROP CONSTRAINT fk_task_tags_task_seq",
        f"ALTER TABLE task_tags ADD CONSTRAINT {key}",
        "CREATE SCHEMA postgres",
    )

    [finding] = examined()["migrations"]

    assert (finding.grade, "never checked: fk_task_tags_task_seq of task_tags" in finding.detail) == ("fail", True)


@pytest.mark.parametrize("spoilt_url", [pytest.param("postgres", marks=pytest.mark.postgres)], indirect=True)
def test_a_table_that_a_crash_empties_is_found_g1(examined: Examine, spoilt_url: str) -> None:
    execute(spoilt_url, "ALTER TABLE runs SET UNLOGGED", "CREATE SCHEMA postgres")

    [finding] = examined()["migrations"]

    assert (finding.grade, finding.detail) == ("fail", "a crash empties unlogged tables: runs")


@pytest.mark.parametrize("spoilt_url", [pytest.param("postgres", marks=pytest.mark.postgres)], indirect=True)
def test_keys_that_are_not_kept_because_triggers_are_disabled_are_found(examined: Examine, spoilt_url: str) -> None:
    """As `pg_restore --disable-triggers` leaves them when it is interrupted: what was removed left rows behind."""
    execute(spoilt_url, "ALTER TABLE task_tags DISABLE TRIGGER ALL", "CREATE SCHEMA postgres")

    [finding] = examined()["migrations"]

    assert (finding.grade, "triggers of task_tags are disabled" in finding.detail) == ("fail", True)


@pytest.mark.parametrize("spoilt_url", [pytest.param("postgres", marks=pytest.mark.postgres)], indirect=True)
def test_what_somebody_added_to_the_tables_is_found(examined: Examine, spoilt_url: str) -> None:
    """Only a server that it had refused something told of it."""
    execute(
        spoilt_url,
        "CREATE FUNCTION audit() RETURNS trigger AS 'BEGIN RETURN NULL; END' LANGUAGE plpgsql",
        "CREATE TRIGGER audit BEFORE INSERT ON tasks FOR EACH ROW EXECUTE FUNCTION audit()",
        "CREATE RULE away AS ON DELETE TO runs DO INSTEAD NOTHING",
        "ALTER TABLE tasks ADD CONSTRAINT dear CHECK (weight > 1)",
        "CREATE UNIQUE INDEX once ON tasks (job_name)",
        "ALTER TABLE jobs ADD COLUMN cost integer NOT NULL",
        "ALTER TABLE jobs ADD COLUMN note text",
        "CREATE TABLE bills (task uuid REFERENCES tasks (id))",
    )

    [finding] = examined()["migrations"]

    assert finding.grade == "warn"
    assert finding.detail == (
        "somebody has added to Treadle's tables: the column cost of the table jobs, the constraint bills_task_fkey of"
        " the table bills, the constraint dear of the table tasks, the constraint once of the table tasks, the rule"
        " away of the table runs, the trigger audit of the table tasks"
    )


@pytest.mark.parametrize("spoilt_url", [pytest.param("postgres", marks=pytest.mark.postgres)], indirect=True)
def test_a_sequence_that_a_restore_left_out_is_found_with_what_mends_it(examined: Examine, spoilt_url: str) -> None:
    execute(spoilt_url, "INSERT INTO targets (num, room, name) VALUES (1, '@global', 'a'), (2, '@global', 'b')")

    [finding] = examined()["migrations"]
    assert (finding.grade, "behind their tables: treadle_target_num, " in finding.detail) == ("fail", True)
    execute(spoilt_url, (finding.advice or "").partition("run ")[2])

    assert [one.grade for one in examined()["migrations"]] == ["ok"]


@pytest.mark.parametrize("spoilt_url", [pytest.param("postgres", marks=pytest.mark.postgres)], indirect=True)
async def test_a_migration_that_runs_at_this_moment_is_told(spoilt_url: str, examined: Examine) -> None:
    connection = await asyncpg.connect(spoilt_url)
    try:
        await connection.fetchval("SELECT pg_advisory_lock($1)", LOCK)

        [finding] = (await asyncio.to_thread(examined))["migrations"]
    finally:
        await connection.close()

    assert (finding.grade, "right now" in finding.detail) == ("warn", True)
