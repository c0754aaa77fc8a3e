"""What can be wrong with a registry, its broker and their names is said before anything is served (G9)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from taskiq import AsyncBroker, InMemoryBroker

from tests.internal import jobs
from tests.internal.site import PaperBroker
from treadle import task
from treadle.errors import DefinitionError, DuplicateTask
from treadle.internal import InternalRegistry
from treadle.settings import InvalidSetting
from treadle_server.app import create_app
from treadle_server.errors import InvalidCategory, ValidationFailed, no_job
from treadle_server.internal.executors import load
from treadle_server.settings import Settings

named_broker = PaperBroker()


def made_broker() -> AsyncBroker:
    return named_broker


@task(room="@global")
def elsewhere() -> None: ...


@task(room="@internal", category="cooking")
def soup() -> None: ...


def test_a_registry_takes_tasks_of_the_room_internal_alone() -> None:
    with pytest.raises(
        DefinitionError, match=r"@global:tasks:elsewhere is not a job that the server runs.*room='@internal'"
    ):
        InternalRegistry([elsewhere])
    with pytest.raises(DefinitionError, match="at least one task"):
        InternalRegistry([])
    with pytest.raises(ValueError, match="at least 1, not 0"):
        InternalRegistry([jobs.add], concurrency=0)
    with pytest.raises(ValueError, match="0 or more, not -1"):
        InternalRegistry([jobs.add], drain_grace=-1)
    with pytest.raises(ValueError, match="at least 1, not '8'"):
        InternalRegistry([jobs.add], concurrency="8")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="0 or more, not 'x'"):
        InternalRegistry([jobs.add], drain_grace="x")  # type: ignore[arg-type]


def test_for_a_job_of_the_servers_that_is_not_there_no_worker_is_asked_for() -> None:
    assert "start a server with `--internal` that has it" in str(no_job("@internal:tasks:nobody", "lab"))
    assert "start a worker that has it" in str(no_job("@global:tasks:nobody", "lab"))


def test_a_broker_runs_each_task_for_one_registry() -> None:
    broker = PaperBroker()
    InternalRegistry([jobs.add], broker=broker)

    with pytest.raises(DuplicateTask, match="the broker already runs @internal:tasks:add"):
        InternalRegistry([jobs.add], broker=broker)


def test_the_broker_is_the_one_given_or_named_or_one_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    given = PaperBroker()
    assert isinstance(InternalRegistry([jobs.add]).broker, InMemoryBroker)
    for name in ("named_broker", "made_broker"):
        named_broker.local_task_registry.clear()
        monkeypatch.setenv("TREADLE_BROKER", f"{__name__}:{name}")
        registry = InternalRegistry([jobs.add])
        assert registry.broker is named_broker
        assert not registry.is_local
    assert InternalRegistry([jobs.add], broker=given).broker is given


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ("nonsense", "is not of the form module:broker"),
        ("no_such_module:broker", "can't be loaded"),
        (f"{__name__}:nothing", "can't be loaded"),
        (f"{__name__}:elsewhere", "is of type Task, not a taskiq broker"),
    ],
)
def test_a_name_of_no_broker_is_refused(named: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TREADLE_BROKER", named)

    with pytest.raises(InvalidSetting, match=said):
        InternalRegistry([jobs.add])


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ("nonsense", "is not of the form module:registry"),
        ("no_such_module:registry", "there is no module 'no_such_module'"),
        ("tests.internal.jobs:nothing", "the module tests.internal.jobs has no 'nothing'"),
        ("tests.internal.jobs:a-b", "module:registry|has no"),
        ("tests.internal.jobs:add", "is a Task without .*: use an InternalRegistry"),
    ],
)
def test_a_name_of_no_registry_is_refused_before_anything_is_made(named: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(ValidationFailed, match=said):
        create_app(Settings(data_dir=tmp_path / "data", internal=named))

    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("says", "raises", "said"),
    [
        ("import os\nos.nothing", AttributeError, "nothing"),
        ("raise ValueError('concurrency is 0')", ValueError, "concurrency is 0"),
        ("import no_such_module", ModuleNotFoundError, "no_such_module"),
        ("import sys\nsys.exit(3)", ValidationFailed, "^internal: own_jobs called sys.exit.*SystemExit: 3"),
    ],
)
def test_what_a_module_raises_itself_is_told_as_it_is(
    says: str, raises: type[Exception], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was told as a wrong name of the registry; one that called sys.exit ended the server without a word."""
    (tmp_path / "own_jobs.py").write_text(says)
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(raises, match=said):
        load("own_jobs:registry")


def test_a_server_finds_what_is_installed_from_a_directory_that_was_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ended with a traceback."""
    monkeypatch.chdir(tmp_path)
    tmp_path.rmdir()

    with pytest.raises(ValidationFailed, match="has no 'nothing'"):
        load("treadle.errors:nothing")


def test_what_is_no_registry_is_refused_in_code_too(tmp_path: Path) -> None:
    with pytest.raises(ValidationFailed, match="internal is a PaperBroker without"):
        create_app(Settings(data_dir=tmp_path), internal=named_broker)  # type: ignore[arg-type]


def test_a_category_that_is_not_allowed_is_told_before_the_server_starts(tmp_path: Path) -> None:
    with pytest.raises(
        InvalidCategory, match=r"category 'cooking' of @internal:cooking:soup is not allowed.*TREADLE_ALLOWED"
    ):
        create_app(Settings(data_dir=tmp_path), internal=InternalRegistry([soup]))


def test_the_command_says_it_in_a_sentence(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from treadle.cli import main; main()", "server", "--port", "0"]
    ended = subprocess.run(
        [*command, "--data-dir", str(tmp_path / "data"), "--internal", "tests.internal.jobs:nothing"],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "TREADLE_INTERNAL": ""},
    )

    assert ended.returncode != 0
    assert "has no 'nothing'" in ended.stderr
    assert "Traceback" not in ended.stderr
