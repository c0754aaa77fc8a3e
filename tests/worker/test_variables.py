"""A variable that is misspelt is told by every command, with the name that is meant."""

import pytest
from click.testing import CliRunner

from treadle import task, variables
from treadle.cli.group import treadle
from treadle.variables import misspelt
from treadle.worker.worker import Worker


@pytest.fixture(autouse=True)
def _nothing_was_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variables, "_told", set())


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("TREADLE_TOKN", "TREADLE_TOKEN"),
        ("TREADLE_DATABSE_URL", "TREADLE_DATABASE_URL"),
        ("treadle_ulr", "TREADLE_URL"),
        ("TREADLE_ALLOWED_CATEGORY", "TREADLE_ALLOWED_CATEGORIES"),
    ],
)
def test_the_nearest_name_is_told_and_never_the_value(written: str, meant: str) -> None:
    [sentence] = misspelt({written: "secret", "TREADLE_PORT": "1", "treadle_host": "::1", "PATH": ""})

    assert written in sentence
    assert f"is {meant} meant?" in sentence
    assert "secret" not in sentence


def test_what_is_like_no_setting_is_told_without_a_guess() -> None:
    [sentence] = misspelt({"TREADLE_QQQQQQ": "1"})

    assert "meant" not in sentence


def test_what_others_set_is_left_alone() -> None:
    assert misspelt({
        "TREADLE_SERVICE_HOST": "10.0.0.1", "TREADLE_SERVICE_PORT": "7420", "TREADLE_PORT_7420_TCP_ADDR": "10.0.0.1",
        "TREADLE_SERVER_SERVICE_HOST": "10.0.0.1", "TREADLE_SERVER_PORT_7420_TCP": "tcp://10.0.0.1:7420",
        "TREADLE_TEST_POSTGRES_URL": "x", "TREADLE_BENCH_DIR": "x", "OTHER_TREADLE_URL": "x",
    }) == []  # fmt: skip


@pytest.mark.inside
@pytest.mark.parametrize(
    "words",
    [
        "server --port 99999",
        "worker no.such.module",
        "watch --contexts --config /nowhere",
        "tasks status:odd",
        "migrate -x",
    ],
)
def test_server_worker_dashboard_and_lists_warn_alike(words: str) -> None:
    ended = CliRunner().invoke(treadle, words.split(), env={"TREADLE_LEASE_SECOND": "1"})

    assert ended.stderr.startswith("Warning: the variable TREADLE_LEASE_SECOND is not a Treadle setting")
    assert ended.stderr.count("is TREADLE_LEASE_SECONDS meant?") == 1


def test_a_worker_that_is_started_in_code_warns_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    @task
    def nothing() -> None: ...

    monkeypatch.setenv("TREADLE_TOKNE", "secret")
    for _ in range(2):
        worker = Worker([nothing], url="http://127.0.0.1:1", token="none")
        worker.stop()
        worker.run()

    assert caplog.text.count("is TREADLE_TOKEN meant?") == 1
