"""What the heartbeat beside the loop says of a server that does not take it."""

import http.server
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from treadle.clock import monotonic
from treadle.wire.log_lines import bound, bound_now
from treadle.worker.fallback_heartbeat import FallbackHeartbeat
from treadle.worker.lease import Leases
from treadle.worker.watchdog import Watchdog

FULL = b'{"type": "/v1/problems/store-unavailable", "title": "Store unavailable", "status": 503, "detail": "no room"}'


@contextmanager
def answering(*answers: tuple[int, bytes]) -> Iterator[str]:
    """Answer requests so, one after the other."""
    left = iter(answers)

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_PATCH(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            status, content = next(left)
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Write nothing beside the test's own log."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            serving.join()


async def no_beat(_: object) -> dict[str, object]:
    return {}


def beat(url: str, times: int) -> None:
    fallback = FallbackHeartbeat(Leases(no_beat), (url,), "token", worker_id=lambda: "w", apply=lambda *_: None)
    for _ in range(times):
        fallback._beat()
    for way in list(fallback._connections):
        fallback._disconnect(way)


def test_what_a_server_refuses_is_said_once_until_it_takes_one(caplog: pytest.LogCaptureFixture) -> None:
    """A server that was away for an hour had each of its workers with a run write a line a second."""
    with answering((503, FULL), (503, FULL), (200, b"{}"), (503, FULL), (502, b"<html>"), (502, b"<html>")) as url:
        beat(url, times=6)

    said = [record.getMessage() for record in caplog.records]
    full = f"the heartbeat over HTTP at {url} failed too: Store unavailable: no room; trying again"
    proxy = f"the heartbeat over HTTP at {url} failed too: it answered 502, which no Treadle server does; trying again"
    assert said == [full, full, proxy]


def test_a_server_that_takes_none_is_not_the_only_one_that_is_asked(caplog: pytest.LogCaptureFixture) -> None:
    """Whoever answered first had the last word, a proxy whose server was gone too: the leases ended at the others."""
    beaten: list[int] = []
    with answering((502, b"<html>")) as gone, answering((200, b"{}")) as well:
        fallback = FallbackHeartbeat(
            Leases(no_beat), (gone, well), "token", worker_id=lambda: "w", apply=lambda *_: beaten.append(1)
        )
        fallback._beat()
        for way in list(fallback._connections):
            fallback._disconnect(way)

    assert beaten == [1]
    assert len(caplog.records) == 1


def test_the_heartbeat_beside_a_blocked_loop_names_all_that_is_held_l1(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop hears of no push, and the run that was claimed last may be the one that has to stop."""
    leases = Leases(no_beat)
    leases.gets_pushes = True
    leases.add({"id": "t", "run_id": 3, "seconds_left": 60}, monotonic())
    fallback = FallbackHeartbeat(leases, ("http://127.0.0.1:1",), "token", worker_id=lambda: "w", apply=lambda *_: None)
    sent: list[bytes] = []
    monkeypatch.setattr(fallback, "_patch", lambda _way, _path, body: sent.append(body) or {})

    fallback._beat()

    assert json.loads(sent[0]) == {"tasks": [{"task_id": "t", "run_id": 3}]}


def test_a_server_that_is_not_there_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        beat(f"http://127.0.0.1:{taken.getsockname()[1]}", times=3)

    [record] = caplog.records
    assert "refused" in record.getMessage()


async def test_threads_beside_the_loop_say_of_which_worker_they_write(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[dict[str, object]] = []
    for beside in (FallbackHeartbeat, Watchdog):
        monkeypatch.setattr(beside, "_run", lambda _: said.append(bound_now()))
    with bound(worker="w"):
        threads = (
            FallbackHeartbeat(Leases(no_beat), (), "token", worker_id=lambda: "w", apply=lambda *_: None),
            Watchdog(Leases(no_beat)),
        )

    for one in threads:
        one.start()
        one._thread.join()

    assert said == [{"worker": "w"}] * 2
