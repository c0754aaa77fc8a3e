"""`@internal` tasks in processes of their own, brought there by taskiq-redis over a real Valkey (Z12)."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.chaos.processes import ServerProcess, free_port, stopped_at_the_end
from tests.internal.valkey import ValkeyProcess
from tests.waiting import look_until


class Site:
    """A Valkey, a server, and a worker of the broker, each a process that can be killed and started again."""

    def __init__(self, directory: Path) -> None:
        self.valkey = ValkeyProcess(directory / "valkey", free_port())
        shared = {"TREADLE_TEST_VALKEY": self.valkey.url}
        (directory / "server").mkdir()
        self.server = ServerProcess(
            directory / "server",
            f"sqlite:///{directory / 'treadle.db'}",
            TREADLE_INTERNAL="tests.internal.queued:registry",
            TREADLE_SWEEPER_INTERVAL_SECONDS="0.2",
            **shared,
        )
        # It has nothing of the server's but its address.
        self._environment = {"TREADLE_URL": self.server.url, "TREADLE_DATA_DIR": str(directory / "none"), **shared}
        self.log = directory / "executors.log"
        self._executors: subprocess.Popen[bytes] | None = None

    def start_executors(self) -> None:
        command = [sys.executable, "-m", "taskiq", "worker", "tests.internal.queued:broker", "--workers", "1"]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("TREADLE_")}
        with self.log.open("ab") as log:
            self._executors = subprocess.Popen(
                command, stdout=log, stderr=log, env=environment | self._environment, start_new_session=True
            )

    def kill_executors(self) -> None:
        if self._executors is not None:
            os.killpg(self._executors.pid, signal.SIGKILL)
            self._executors.wait()
            self._executors = None

    # What a user does

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        answer = httpx.post(f"{self.server.url}{path}", headers=self.server.headers, json=body, timeout=30)
        assert answer.status_code in {200, 202}, answer.text
        return answer.json()  # type: ignore[no-any-return]

    def submit(self, name: str, payload: dict[str, Any] | None = None, **options: Any) -> dict[str, Any]:
        return self.post(f"/v1/rooms/lab/tasks/@internal:tasks:{name}", {"payload": payload or {}, **options})

    def over(self, task: dict[str, Any]) -> dict[str, Any]:
        return self.until(task, lambda found: found["status"] in {"completed", "failed", "cancelled"})

    def until(self, task: dict[str, Any], wanted: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
        try:
            return look_until(lambda: self.get(f"/v1/tasks/{task['id']}"), wanted, seconds=40)  # type: ignore[no-any-return]
        except TimeoutError as error:
            raise TimeoutError(f"{error}\n{self.log.read_text()[-3000:]}") from None

    def get(self, path: str) -> Any:
        return httpx.get(f"{self.server.url}{path}", headers=self.server.headers).json()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    made = Site(tmp_path_factory.mktemp("site"))
    made.valkey.start()
    try:
        made.server.start()
        with stopped_at_the_end(made.server):
            made.start_executors()
            try:
                yield made
            finally:
                made.kill_executors()
    finally:
        made.valkey.stop()


def test_z12_tasks_run_in_the_brokers_worker_process_with_a_credential_and_no_token(site: Site):
    where = site.over(site.submit("where"))
    sums = [site.over(task)["result"] for task in [site.submit("add", {"a": n}) for n in range(10)]]

    assert where["status"] == "completed", where
    pid, token = where["result"]
    assert Path(f"/proc/{pid}").exists()
    assert pid != os.getpid()
    assert token is None
    assert sums == list(range(1, 11))


def test_a_pause_and_a_cancel_reach_the_brokers_worker(site: Site):
    task = site.submit("counts")
    site.until(task, lambda found: (found["checkpoint"] or 0) > 2)

    site.post(f"/v1/tasks/{task['id']}/pause", {})
    paused = site.until(task, lambda found: found["status"] == "paused")
    site.post(f"/v1/tasks/{task['id']}/resume", {})
    site.until(task, lambda found: (found["checkpoint"] or 0) > paused["checkpoint"])
    cancelled = site.post(f"/v1/tasks/{task['id']}/cancel", {})

    assert (paused["run_id"], cancelled["run_id"], cancelled["status"]) == (0, 1, "cancelled")
    # Its code has stopped: the executors' worker holds nothing any more.
    look_until(lambda: site.get("/v1/workers")["items"][0]["used"], lambda used: not used, seconds=10)


def test_z12_e8_a_server_that_is_killed_finds_the_result_of_what_went_on_without_it(site: Site, tmp_path: Path):
    gate = tmp_path / "gate"
    task = site.submit("gated", {"gate": str(gate)})
    site.until(task, lambda found: found["status"] == "running")

    site.server.kill()
    gate.touch()
    site.server.start()

    found = site.over(task)
    assert (found["status"], found["result"], found["run_id"]) == ("completed", "run 0", 0)


def test_z12_a_valkey_that_is_away_fails_what_is_submitted_and_is_found_again(site: Site):
    site.valkey.stop()

    failed = site.submit("add", {"a": 1}, max_retries=3)

    assert (failed["status"], failed["error"]) == ("failed", "Failed to dispatch to internal executor")
    site.valkey.start()
    site.kill_executors()
    site.start_executors()
    assert site.over(site.submit("add", {"a": 1}))["result"] == 2


def test_z13_what_a_killed_executor_had_is_failed_after_its_timeout(site: Site, tmp_path: Path):
    site.server.stop()
    site.server.environment["TREADLE_INTERNAL_TASK_TIMEOUT_SECONDS"] = "2"
    site.server.start()
    task = site.submit("gated", {"gate": str(tmp_path / "gate")})
    site.until(task, lambda found: found["status"] == "running")

    site.kill_executors()

    found = site.over(task)
    assert (found["status"], found["error"]) == ("failed", "Internal worker timeout")
