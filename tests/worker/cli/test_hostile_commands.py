"""N4: no command passes on to a terminal what users sent; whoever adds a command says here what it is tried with."""

import json
import re
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import click
import httpx
import pytest
import sqlalchemy as sa

from tests.worker.cli.hostile import JOINED, LINES, VALUE, Filled
from tests.worker.cli.pseudo import Terminal, obeyed, text_of
from treadle import outbox
from treadle.cli.group import treadle
from treadle.cli.show import ListedGroup
from treadle.outbox.table import TABLE
from treadle_server.testing import Served, serve_in_thread

Words = Callable[[Filled], list[str]]


class Use(NamedTuple):
    """One way to run a command."""

    words: Words
    shows: bool = True
    """Whether what users sent is among what it prints."""
    code: int = 0
    is_data: bool = False
    """Whether it prints one text of theirs and nothing of ours, which that could pass for."""


def _quiet(words: Words, code: int = 0) -> Use:
    return Use(words, shows=False, code=code)


def _beside_a_flow(it: Filled, *words: str) -> list[str]:
    it.flow()
    return list(words)


USES: dict[str, list[Use] | str] = {
    "artifacts": [
        _quiet(lambda it: [it.done]),
        _quiet(lambda it: [it.done, "--json"]),
        Use(lambda it: [it.done, "--download", str(it.place / VALUE.replace("/", ""))]),
    ],
    "bench": [
        Use(lambda it: ["--from", _report(it)], code=1),
        Use(lambda it: ["--from", _report(it), "--markdown"], code=1),
        Use(lambda it: ["--from", _report(it), "--json", "-"], code=1),
        _quiet(lambda _: ["--list"]),
        Use(lambda _: [VALUE], code=2),
    ],
    "cancel": [
        _quiet(lambda it: [it.open()]),
        Use(lambda it: [it.open(), "--json"]),
        Use(lambda _: [VALUE], code=2),
        _quiet(lambda it: [it.failed], code=1),
    ],
    "copy": [Use(lambda _: [VALUE, "sqlite:///new.db"], code=2), Use(lambda _: ["sqlite:///old.db", VALUE], code=2)],
    "demo": [Use(lambda it: [_directory(it)], code=2)],
    "doctor": [_quiet(lambda _: []), _quiet(lambda _: ["--json"])],
    "edit": [
        _quiet(lambda it: [it.open(), "--tag", f"{VALUE}={VALUE}"]),
        Use(lambda it: [it.open(), "--priority", "1", "--json"]),
        Use(lambda _: [VALUE, "--priority", "1"], code=2),
        _quiet(lambda it: [it.open(), "--payload", VALUE], code=2),
        _quiet(lambda it: [it.failed, "--priority", "1"], code=1),
    ],
    "failures": [
        Use(lambda it: ["--room", it.room]),
        Use(lambda it: ["--room", it.room, "--json"]),
        Use(lambda _: ["--job", VALUE], code=1),
    ],
    "flow": [
        Use(lambda it: [it.flow()]),
        Use(lambda it: [it.flow(), "--json"]),
        _quiet(lambda it: [it.flow(), "rerun-failed"]),
        Use(lambda _: [VALUE], code=2),
    ],
    "flows": [Use(_beside_a_flow), Use(lambda it: _beside_a_flow(it, "--json"))],
    "jobs": [Use(lambda it: ["--room", it.room]), Use(lambda it: ["--room", it.room, "--json"])],
    "limits": [_quiet(lambda _: []), Use(lambda _: [VALUE], code=2)],
    "limits delete": [
        _quiet(lambda it: [it.put_limit("gone"), "--room", it.room]),
        _quiet(lambda it: [VALUE, "--room", it.room], code=1),
    ],
    "limits list": [
        Use(lambda it: ["--room", it.room]),
        Use(lambda it: [it.put_limit("kept") and "--json", "--room", it.room]),
    ],
    "limits set": [
        Use(lambda it: ["api", "--concurrency", "2", "--room", it.room]),
        Use(lambda _: ["api", "--rate", VALUE], code=2),
    ],
    "limits show": [
        Use(lambda it: [it.put_limit("kept"), "--room", it.room]),
        Use(lambda it: [it.put_limit("kept"), "--room", it.room, "--json"]),
    ],
    "logs": [
        Use(lambda it: [it.done]),
        Use(lambda it: [it.done, "--follow", "--json"]),
        Use(lambda _: [VALUE], code=2),
    ],
    "migrate": [Use(lambda _: ["--database-url", VALUE], code=2)],
    "pause": [
        _quiet(lambda it: [it.open()]),
        Use(lambda it: ["--queue", it.job]),
        Use(lambda _: ["--queue", f"a:b:{VALUE}"], code=1),
    ],
    "prune": [
        Use(lambda it: [*_ended(it), "--dry-run"]),
        Use(lambda it: [*_ended(it), "--dry-run", "--json"]),
        Use(lambda it: [*_ended(it), "--yes"]),
    ],
    "rerun": [_quiet(lambda it: [it.cancelled()]), Use(lambda it: [it.cancelled(), "--json"])],
    "resolve": [
        _quiet(lambda it: [it.paused(), "--error", LINES, "--status", "failed"]),
        Use(lambda it: [it.paused(), "--result", LINES, "--json"]),
    ],
    "resume": [
        _quiet(lambda it: [it.paused()]),
        Use(lambda it: ["--queue", it.job]),
        Use(lambda it: ["--queue", it.job, "--json"]),
    ],
    "schedules": [_quiet(lambda _: [])],
    "schedules delete": [_quiet(lambda it: [it.put_schedule("gone"), "--room", it.room])],
    "schedules list": [Use(lambda it: ["--room", it.room]), Use(lambda it: ["--room", it.room, "--json"])],
    "schedules pause": [
        _quiet(lambda it: [it.schedule, "--room", it.room]),
        Use(lambda it: [VALUE, "--room", it.room], code=1),
    ],
    "schedules resume": [_quiet(lambda it: [it.schedule, "--room", it.room])],
    "schedules run": [_quiet(lambda it: [it.schedule, "--room", it.room])],
    "schedules set": [Use(lambda it: ["set", it.job, f"n={LINES}", "--every", "60", "--room", it.room])],
    "schedules show": [
        Use(lambda it: [it.schedule, "--room", it.room]),
        Use(lambda it: [it.schedule, "--room", it.room, "--json"]),
    ],
    "outbox": [_quiet(lambda it: [_refused(it, "--once")]), Use(lambda _: ["--batch", VALUE], code=2)],
    "outbox ddl": [_quiet(lambda _: [])],
    "outbox drop": [_quiet(lambda it: [_refused(it)]), _quiet(lambda _: [VALUE], code=2)],
    "outbox list": [Use(lambda it: [_refused(it, "--limit"), "9"]), Use(lambda it: [_refused(it, "--json")])],
    "outbox retry": [_quiet(lambda it: [_refused(it)]), _quiet(lambda _: [VALUE], code=2)],
    "send": [
        Use(lambda it: [it.open(), VALUE, LINES]),
        Use(lambda it: [it.open(), VALUE, LINES, "--id", VALUE, "--json"]),
        _quiet(lambda it: [it.cancelled(), VALUE], code=1),
        Use(lambda _: [VALUE, VALUE], code=2),
    ],
    "server": [Use(lambda _: ["--auth", "none", "--host", VALUE], code=2)],
    "submit": [
        _quiet(lambda it: [it.job, f"n={VALUE}", "--tag", f"{VALUE}={VALUE}", "--room", it.room]),
        Use(lambda it: [it.job, f"n={LINES}", "--room", it.room, "--json"]),
        Use(lambda _: [VALUE], code=1),
        Use(lambda it: [it.job, "--room", it.room, "--depends-on", f"{VALUE}={it.failed}", "--json"]),
        Use(lambda it: [it.job, "--depends-on", VALUE], code=2),
        Use(lambda it: [*it.as_submitted(it.done), "--wait"], is_data=True),
        Use(lambda it: [*it.as_submitted(it.failed), "--wait"], code=1),
    ],
    "targets": [
        Use(lambda it: ["--room", it.room]),
        Use(lambda it: [it.target, "--room", it.room]),
        Use(lambda it: [it.target, "--room", it.room, "--json"]),
        Use(lambda _: ["--room", VALUE], code=1),
    ],
    "task": [
        Use(lambda it: [it.failed]),
        Use(lambda it: [it.done]),
        Use(lambda it: [it.waiting]),
        Use(lambda it: [it.failed, "--json"]),
        Use(lambda _: [VALUE], code=2),
    ],
    "tasks": [
        Use(lambda it: [f'job:"{it.job}"']),
        Use(lambda it: [f'job:"{it.job}"', "--json"]),
        Use(lambda _: [f'status:"{VALUE}"'], code=2),
    ],
    "token": [_quiet(lambda _: [])],
    "token create": [_quiet(lambda _: ["plain"]), _quiet(lambda _: [VALUE], code=1)],
    "token list": [_quiet(lambda _: []), _quiet(lambda _: ["--json"])],
    "token revoke": [Use(lambda _: [VALUE], code=1)],
    "token rotate-keys": [_quiet(lambda _: [])],
    "watch": [
        Use(lambda it: ["--config", _config(it), "--contexts"]),
        _quiet(lambda it: ["--config", _config(it), "--keys"]),
        Use(lambda it: ["--config", _config(it), "--context", f"no {VALUE}", "--json"], code=2),
        Use(lambda _: [f'status:"{VALUE}"', "--json"], code=2),
    ],
    "webhooks": [_quiet(lambda _: [])],
    "webhooks delete": [_quiet(lambda _: [VALUE], code=1)],
    "webhooks deliveries": [
        _quiet(lambda it: ["hook", "--room", it.room, "--waiting"]),
        Use(lambda _: ["hook", "--room", VALUE], code=1),
    ],
    "webhooks list": [Use(lambda it: ["--room", it.room]), Use(lambda it: ["--room", it.room, "--json"])],
    "webhooks redeliver": [_quiet(lambda it: ["hook", "--room", it.room, "--all"])],
    "webhooks set": [_quiet(lambda it: ["hook", "https://example.org/", "--room", it.room])],
    "worker": [Use(lambda _: [VALUE], code=2)],
    "workers": [_quiet(lambda _: []), Use(lambda _: [VALUE], code=2)],
    "workers drain": [
        Use(lambda _: [VALUE]),
        Use(lambda _: [VALUE, "--json"]),
        Use(lambda _: [f"no {VALUE}"], code=1),
    ],
    "workers list": [Use(lambda it: ["--room", it.room]), Use(lambda it: ["--room", it.room, "--json"])],
}  # fmt: skip
"""How each command is tried, or why it is not."""


def _ended(it: Filled) -> list[str]:
    it.cancelled()
    return ["--older-than", "0s", "--status", "cancelled"]


def _directory(it: Filled) -> str:
    path = it.place / VALUE.replace("/", "")
    path.mkdir(exist_ok=True)
    return str(path)


def _outbox(place: Path) -> str:
    return f"sqlite:///{place / 'outbox.db'}"


def _refused(it: Filled, word: str = "") -> str:
    """Have one row of the outbox be refused; return its task's id, or another word."""
    problem = {"type": VALUE, "title": VALUE, "status": 422, "detail": LINES}
    row = {"room": VALUE, "job": VALUE, "body": json.dumps({"payload": VALUE}), "problem": json.dumps(problem)}
    row |= {"id": str(uuid.uuid4())}
    now = datetime.now(UTC).replace(tzinfo=None)
    engine = sa.create_engine(_outbox(it.place))
    with engine.begin() as connection:
        outbox.create_table(connection)
        connection.execute(sa.delete(TABLE))
        connection.execute(sa.insert(TABLE).values(**row, created_at=now, refused_at=now))
    engine.dispose()
    return word or row["id"]


def _config(it: Filled) -> str:
    path = it.place / "tui.toml"
    name = json.dumps(VALUE, ensure_ascii=False).replace("\x7f", "\\u007f")
    path.write_text(f'[contexts.{name}]\nurl = "http://127.0.0.1:1"\n')
    return str(path)


def _report(it: Filled) -> str:
    row = {"case": VALUE, "database": VALUE, "figure": VALUE, "unit": VALUE, "is_rate": True, "values": [1.0]}
    failure = {"case": VALUE, "database": VALUE, "message": LINES}
    report = {"command": VALUE, "scale": 1, "repeats": 1, "machine": {VALUE: VALUE}, "versions": {VALUE: VALUE}}
    path = it.place / "report.json"
    path.write_text(json.dumps({**report, "rows": [row], "failures": [failure], "left_out": VALUE}))
    return str(path)


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    """A server of its own: what is there is no other test's."""
    with serve_in_thread() as served:
        yield served


@pytest.fixture(scope="module")
def filled(served: Served, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Filled]:
    with httpx.Client(base_url=served.url, headers=served.headers) as http:
        yield Filled(http, tmp_path_factory.mktemp("hostile"))


@pytest.fixture
def terminal(served: Served, filled: Filled, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    for name, value in (("URL", served.url), ("TOKEN", served.token), ("DATA_DIR", str(filled.place / "none"))):
        monkeypatch.setenv(f"TREADLE_{name}", value)
    monkeypatch.setenv("TREADLE_OUTBOX_DATABASE_URL", _outbox(filled.place))
    monkeypatch.chdir(filled.place)
    monkeypatch.setenv("COLUMNS", "2000")
    return Terminal(monkeypatch)


def commands(group: click.Group = treadle, above: str = "") -> Iterator[str]:
    """Walk every command that there is, the groups that do something by themselves with them."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands(command, f"{above}{name} ")
        if not isinstance(command, click.Group) or command.invoke_without_command or isinstance(command, ListedGroup):
            yield f"{above}{name}"


def test_no_command_is_forgotten_here() -> None:
    assert sorted(commands()) == sorted(USES)


@pytest.mark.parametrize("name", [name for name, uses in USES.items() if not isinstance(uses, str)])
def test_n4_nothing_that_users_sent_reaches_the_terminal_raw(name: str, terminal: Terminal, filled: Filled) -> None:
    uses = USES[name]
    assert not isinstance(uses, str)
    for use in uses:
        code, shown = terminal(*name.split(), *use.words(filled))

        assert code == use.code, shown
        text = text_of(shown)
        assert obeyed(text) == [], text
        assert use.is_data or not re.search("^FORGED", text, re.MULTILINE), text
        assert not use.shows or "\\u202e" in text, text
        # In an error a value may stand as Python writes it, joiners too.
        assert not use.shows or code or JOINED in text
