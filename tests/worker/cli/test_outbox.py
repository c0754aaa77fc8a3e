"""`treadle outbox`: hands over, lists what is refused, tries it again, drops it, and prints the table (F6)."""

import json
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.worker.cli.conftest import Command
from treadle import outbox, task
from treadle.ids import new_task_id
from treadle.outbox.table import TABLE


@task(category="tasks", name="posted")
def posted(n: int) -> int:
    return n


class Database:
    """A user's database with the outbox."""

    def __init__(self, path: Path) -> None:
        self.url = f"sqlite:///{path}"
        self.engine = sa.create_engine(self.url)
        with self.engine.begin() as connection:
            outbox.create_table(connection)

    def write(self, n: int, **values: object) -> str:
        with self.engine.begin() as connection:
            task_id = outbox.submit_sync(connection, posted.bind(n))
            if values:
                same = TABLE.c.id == task_id
                connection.execute(sa.update(TABLE).where(same).values(**values))
        return task_id


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Database]:
    database = Database(tmp_path / "shop.db")
    yield database
    database.engine.dispose()


def test_f6_one_sweep_hands_over_and_says_so(command: Command, shop: Database) -> None:
    task_id = shop.write(7)

    assert command.said("outbox", "--database", shop.url, "--once") == "1 handed over, 0 refused, 0 left\n"
    assert command.read("task", task_id)["task"]["payload"] == {"n": 7}
    assert command("outbox", "--once", TREADLE_OUTBOX_DATABASE_URL=shop.url).stdout.startswith("0 handed over")


def test_f6_what_stands_in_sqlite_as_bytes_is_listed_as_text(command: Command, shop: Database) -> None:
    """A program in another language writes the rows, and SQLite keeps what it is given."""
    with shop.engine.begin() as connection:
        connection.exec_driver_sql(
            "INSERT INTO treadle_outbox (id, room, job, body, created_at) VALUES (?, ?, ?, ?, CURRENT_TIMESTAMP)",
            (b"\x01\xff", b"lab", b"lab:tasks:posted", b"{"),
        )
    at = ("outbox", "--database", shop.url)

    [row] = command.read(*at, "list", "--waiting")["rows"]

    assert (row["id"], row["room"], row["job"], row["body"]) == ("\x01\ufffd", "lab", "lab:tasks:posted", "{")
    assert "lab:tasks:posted  lab " in command.said(*at, "list", "--waiting")


def test_f6_what_is_no_utf_8_in_sqlite_is_refused_listed_and_dropped(command: Command, shop: Database) -> None:
    good = shop.write(1)
    shop.write(2, id=sa.cast(b"\xe9", sa.Text), problem=sa.cast(b"\xe9", sa.Text))
    shop.write(3, refused_at=sa.cast(b"\xe9", sa.Text), problem=sa.cast(b"\xe9", sa.Text))
    at = ("outbox", "--database", shop.url)

    assert "\ufffd" in command.said(*at, "list", "--waiting")
    assert command(*at, "--once").stdout == "1 handed over, 1 refused, 0 left\n"
    assert command.read("task", good)["task"]["payload"] == {"n": 1}
    [refused, other] = command.read(*at, "list")["rows"]
    assert (refused["id"], refused["problem"]["detail"]) == ("\ufffd", "the row's id is not UTF-8")
    assert other["problem"]["detail"] == "\ufffd"
    assert "the row's id is not UTF-8" in command.said(*at, "list")
    assert "no refused row's id begins with ab" in command.refused(*at, "drop", "ab")
    assert command.said(*at, "drop", "--all") == "2 rows dropped\n"


def test_f6_what_is_refused_is_listed_tried_again_and_dropped(command: Command, shop: Database) -> None:
    at = ("outbox", "--database", shop.url)
    first, second = (shop.write(n, job="@global:tasks:nobody", registration=None) for n in range(2))

    swept = command(*at, "--once")
    assert (swept.exit_code, swept.stdout) == (1, "0 handed over, 2 refused, 0 left\n")
    listed = command.said(*at, "list").splitlines()
    assert listed[0].split() == ["ID", "JOB", "ROOM", "WRITTEN", "REFUSED", "PROBLEM"]
    assert listed[1].split()[:3] == [first, "@global:tasks:nobody", "@global"]
    assert listed[-1] == "0 waiting, 2 refused"
    [row, _] = command.read(*at, "list")["rows"]
    assert (row["id"], row["problem"]["status"]) == (first, 404)

    assert command.said(*at, "drop", second) == "1 row dropped\n"
    assert command.said(*at, "retry", "--all") == "1 row will be tried again\n"
    assert command.said(*at, "list").splitlines() == ["No rows are refused.", "1 waiting, 0 refused"]
    [waiting] = command.read(*at, "list", "--waiting")["rows"]
    assert (waiting["id"], waiting["problem"], waiting["refused_at"]) == (first, None, None)


def test_what_became_of_refused_rows_is_told_in_json(command: Command, shop: Database) -> None:
    at = ("outbox", "--database", shop.url)
    first, _ = (shop.write(n, refused_at=datetime.now(UTC)) for n in range(2))

    assert command.read(*at, "retry", first) == {"retried": 1}
    assert command.read(*at, "drop", "--all") == {"dropped": 1}
    assert command.read(*at, "drop", "--all") == {"dropped": 0}


def test_what_one_sweep_has_done_is_told_in_json(command: Command, shop: Database) -> None:
    at = ("outbox", "--database", shop.url)
    shop.write(1)
    shop.write(2, job="@global:tasks:nobody", registration=None)

    swept = command(*at, "--once", "--json")

    assert (swept.exit_code, json.loads(swept.stdout)) == (1, {"handed": 1, "refused": 1, "left": 0, "why": None})
    assert "with --once" in command.refused(*at, "--json", code=2)
    assert "after the sub-command" in command.refused(*at, "--once", "--json", "list", code=2)


def test_a_refused_row_is_meant_by_the_beginning_of_its_id(command: Command, shop: Database) -> None:
    at = ("outbox", "--database", shop.url)
    ids = [f"0a5e0000-0000-7000-8000-00000000000{n}" for n in range(2)]
    for n, one in enumerate([*ids, "0b5e0000-0000-7000-8000-000000000000"]):
        shop.write(n, id=one, refused_at=datetime.now(UTC))

    assert "more than one refused row's id begins with 0a5e" in command.refused(*at, "drop", "0B5E", "0a5e")
    assert "'x' is not a refused row's id" in command.refused(*at, "drop", "0B5E", "x", code=2)
    assert command.said(*at, "retry", "0B5E") == "1 row will be tried again\n"
    assert [row["id"] for row in command.read(*at, "list")["rows"]] == ids


def test_what_is_asked_wrongly_says_what_to_do(command: Command, shop: Database, tmp_path: Path) -> None:
    at = ("outbox", "--database", shop.url)

    assert "give either IDs or --all" in command.refused(*at, "drop", code=2)
    assert "'x' is not a refused row's id" in command.refused(*at, "retry", "x", code=2)
    assert "no refused row's id begins with 0a" in command.refused(*at, "retry", "0a")
    assert "no refused row has such an id" in command.refused(*at, "retry", new_task_id())
    assert "which database? Give --database URL" in command.refused("outbox", code=2)
    driverless = command.refused("outbox", "--database", "oracle+cx_oracle://x", "list", code=2)
    assert "needs the driver cx_Oracle" in driverless
    cut = command.refused("outbox", "--database", "postgresql+asyncpg://x", "--table", "x" * 64, "ddl", code=2)
    assert "exceeds maximum length of 63" in cut
    empty = f"sqlite:///{tmp_path}/empty.db"
    assert "the database has no table treadle_outbox: create it" in command.refused(*at[:2], empty, "list")
    for doing in ("list", "--once"):
        nowhere = command.refused(*at[:2], f"sqlite:///{tmp_path}/no/such.db", doing)
        assert nowhere == "Error: the outbox's database does not answer: unable to open database file\n"
    shop.write(7)
    away = command.refused(*at, "--once", TREADLE_URL="http://127.0.0.1:1")
    assert "treadle server" in away
    assert "the outbox's database" not in away


def test_the_table_is_printed_in_the_database_s_words_and_under_another_name(command: Command, shop: Database) -> None:
    said = command.said("outbox", "--database", shop.url, "--table", "main.to_do", "ddl")

    assert said.startswith("CREATE TABLE main.to_do (\n    seq INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,")
    with shop.engine.begin() as connection:
        for statement in said.split(";\n\n"):
            connection.exec_driver_sql(statement.rstrip(";\n").replace(" ON main.", " ON "))
    assert command.said("outbox", "--database", shop.url, "--table", "to_do", "list").endswith("0 refused\n")


_WITHOUT = """
import sys
sys.modules["sqlalchemy"] = None
"""


def run_without_sqlalchemy(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", _WITHOUT + code], capture_output=True, text=True, check=False)
    return done.stderr


@pytest.mark.parametrize("word", ["--once", "list", "retry", "drop", "ddl"])
def test_without_sqlalchemy_the_command_says_what_to_install_and_no_more(word: str) -> None:
    words = ["outbox", "--database", "sqlite:///shop.db", word, *(["--all"] if word in {"retry", "drop"} else [])]

    said = run_without_sqlalchemy(f"from treadle.cli import main; sys.argv[1:] = {words}; main()")

    assert said.endswith(
        "\nError: `treadle outbox` needs SQLAlchemy, which is not installed: pip install 'treadle[outbox]'\n"
    )
    assert "Traceback" not in said


def test_without_sqlalchemy_the_module_says_what_to_install() -> None:
    said = run_without_sqlalchemy("import treadle.outbox")

    assert said.endswith("ImportError: treadle.outbox needs SQLAlchemy: pip install 'treadle[outbox]'\n")
