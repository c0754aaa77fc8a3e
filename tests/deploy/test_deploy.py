"""What is handed to those who run it fits the program: commands, settings, ports, routes and times."""

import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import httpx
import pytest
import yaml

from treadle.cli.group import treadle
from treadle.variables import KNOWN
from treadle_server.serving.server import ENDING_SECONDS, GRACE_SECONDS
from treadle_server.serving.shutdown import LONGEST
from treadle_server.settings import Settings

ROOT = Path(__file__).parents[2]
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text())
KUBERNETES = {
    (part["kind"], part["metadata"]["name"]): part
    for part in yaml.safe_load_all((ROOT / "deploy/kubernetes.yaml").read_text())
}
FILES = [ROOT / "compose.yaml", *sorted((ROOT / "deploy").iterdir()), ROOT / "docs/operations.md"]


def _pod(kind: str, name: str) -> dict[str, Any]:
    spec: dict[str, Any] = KUBERNETES[kind, name]["spec"]["template"]["spec"]
    return spec


def _unit(name: str) -> dict[str, str]:
    lines = (ROOT / "deploy" / name).read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))


SERVERS = {
    "compose": (
        shlex.split(COMPOSE["services"]["server-1"]["command"]),
        COMPOSE["services"]["server-1"]["stop_grace_period"],
    ),
    "kubernetes": (
        _pod("StatefulSet", "treadle-server")["containers"][0]["args"],
        _pod("StatefulSet", "treadle-server")["terminationGracePeriodSeconds"],
    ),
    "systemd": (
        shlex.split(_unit("treadle-server.service")["ExecStart"])[1:],
        _unit("treadle-server.service")["TimeoutStopSec"],
    ),
}
WORKERS = {
    "compose": (
        shlex.split(COMPOSE["services"]["worker"]["command"][0].rpartition(" treadle ")[2]),
        COMPOSE["services"]["worker"]["stop_grace_period"],
    ),
    "kubernetes": (
        _pod("Deployment", "treadle-worker")["containers"][0]["args"],
        _pod("Deployment", "treadle-worker")["terminationGracePeriodSeconds"],
    ),
    "systemd": (
        shlex.split(_unit("treadle-worker@.service")["ExecStart"])[1:],
        _unit("treadle-worker@.service")["TimeoutStopSec"],
    ),
}


def _parsed(arguments: list[str]) -> dict[str, Any]:
    context = click.Context(treadle, **treadle.context_settings)
    name, command, rest = treadle.resolve_command(context, list(arguments))
    assert command is not None
    return dict(command.make_context(name, rest, parent=context).params)


@pytest.mark.parametrize("where", SERVERS)
def test_a_server_is_started_by_a_command_that_there_is_and_has_time_to_end(where: str) -> None:
    arguments, seconds = SERVERS[where]

    assert arguments[0] == "server"
    _parsed(arguments)
    # Requests in progress and their ends, and then what else runs in the server, which may wait for its database.
    assert int(str(seconds).removesuffix("s")) > GRACE_SECONDS + LONGEST + ENDING_SECONDS


@pytest.mark.parametrize("where", WORKERS)
def test_a_worker_is_started_by_a_command_that_there_is_and_has_time_to_drain(where: str) -> None:
    arguments, seconds = WORKERS[where]

    assert arguments[0] == "worker"
    assert int(str(seconds).removesuffix("s")) > _parsed(arguments)["drain_grace"]


def test_a_worker_of_compose_is_not_started_without_its_token(tmp_path: Path) -> None:
    """It would go on without one: the container ends instead, and is started again."""
    worker, token = tmp_path / "treadle", tmp_path / "token"
    worker.write_text('#!/bin/sh\necho "$TREADLE_TOKEN"\n')
    worker.chmod(0o700)
    [given] = COMPOSE["services"]["worker"]["command"]
    command = [
        *COMPOSE["services"]["worker"]["entrypoint"],
        given.replace("$$", "$").replace("/data/token", str(token)),
    ]
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin"}

    before = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    token.write_text("secret")
    after = subprocess.run(command, env=env, capture_output=True, text=True, check=False)

    assert (before.returncode != 0, before.stdout) == (True, "")
    assert (after.returncode, after.stdout) == (0, "secret\n")


def test_a_worker_is_not_the_first_process_of_its_container() -> None:
    """It waits for its own children alone, so that what their tasks had started stayed as zombies, up to the limit."""
    assert COMPOSE["services"]["worker"]["init"]
    assert _pod("Deployment", "treadle-worker")["shareProcessNamespace"]
    assert "run --init -e TREADLE_URL" in (ROOT / "deploy/Dockerfile").read_text()


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_every_variable_is_one_that_is_read(file: Path) -> None:
    assert set(re.findall(r"TREADLE_[A-Z_]+", file.read_text())) <= KNOWN


@pytest.mark.parametrize("name", [name for kind, name in KUBERNETES if kind in {"StatefulSet", "Deployment"}])
def test_a_service_named_treadle_sets_no_port_for_a_pod(name: str) -> None:
    kind = next(kind for kind, other in KUBERNETES if other == name and kind != "PodDisruptionBudget")

    assert _pod(kind, name)["enableServiceLinks"] is False


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the address of a server that was started as the unit says, on another port and directory, and is ready."""
    arguments, _ = SERVERS["systemd"]
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [
        sys.executable,
        "-m",
        "treadle",
        *arguments,
        "--port",
        str(port),
        "--data-dir",
        tmp_path_factory.mktemp("d"),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        # It answers before the first turn of each of its services is over, as a probe finds it too.
        while httpx.get(f"http://127.0.0.1:{port}/readyz").status_code != 200:
            pass
        yield f"http://127.0.0.1:{port}"
        process.terminate()
    assert process.returncode == 0


def test_every_probe_asks_for_what_a_server_answers(server: str) -> None:
    probes = [probe["httpGet"] for key, probe in _server_container().items() if key.endswith("Probe")]
    healthcheck = COMPOSE["services"]["server-1"]["healthcheck"]["test"][-1]

    assert {probe["port"] for probe in probes} == {"http"}
    assert "/readyz" in healthcheck
    for path in {probe["path"] for probe in probes}:
        assert httpx.get(f"{server}{path}").status_code == 200
    code = healthcheck.replace("http://127.0.0.1:7420", server)
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    closed = healthcheck.replace(":7420", ":1")
    assert subprocess.run([sys.executable, "-c", closed], check=False, capture_output=True).returncode != 0


def _server_container() -> dict[str, Any]:
    container: dict[str, Any] = _pod("StatefulSet", "treadle-server")["containers"][0]
    return container


def test_ports_are_the_server_s_own() -> None:
    own = Settings.model_fields["port"].default

    assert KUBERNETES["Service", "treadle"]["spec"]["ports"][0]["port"] == own
    assert _server_container()["ports"][0]["containerPort"] == own
    assert all(f":{own}" in url for url in COMPOSE["services"]["worker"]["environment"]["TREADLE_URL"].split(","))
    assert f"EXPOSE {own}" in (ROOT / "deploy/Dockerfile").read_text()


def test_the_image_holds_what_is_there_and_runs_as_nobody_s_root() -> None:
    text = (ROOT / "deploy/Dockerfile").read_text()
    last = text.rpartition("\nFROM ")[2]

    assert all((ROOT / path).exists() for path in re.findall(r"packages/\w+", text))
    assert re.search(r"^USER 10001$", last, re.MULTILINE)
    assert "--uid 10001" in last
    for kind, name in (("StatefulSet", "treadle-server"), ("Deployment", "treadle-worker")):
        assert _pod(kind, name)["securityContext"]["runAsUser"] == 10001
        assert _pod(kind, name)["securityContext"]["runAsNonRoot"]
    kept = (ROOT / ".dockerignore").read_text().splitlines()
    assert kept[0] == "*"
    assert {f"!{name}" for name in re.findall(r"^COPY (?:--\S+ )?(\w[\w.]*) ", text, re.MULTILINE)} <= set(kept)


def test_a_server_has_an_hour_to_migrate_its_database_before_it_is_killed_or_given_up() -> None:
    probe = _server_container()["startupProbe"]

    assert probe["periodSeconds"] * probe["failureThreshold"] >= 3600
    assert COMPOSE["services"]["server-1"]["healthcheck"]["start_period"] == "1h"


def test_the_page_waits_for_what_a_first_start_makes_and_makes_no_backup_that_others_read() -> None:
    page = (ROOT / "docs/operations.md").read_text()

    assert page.index("until [ -s /var/lib/treadle/token ]") < page.index("$(cat /var/lib/treadle/token)")
    for name in ("operations", "growing"):
        text = (ROOT / f"docs/{name}.md").read_text()
        assert text.count('.backup copy.db"') == text.count("`umask 077; sqlite3 ") == 1
