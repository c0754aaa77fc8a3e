"""Targets that ask a server: bodies, queries, headers, frames and artifacts, about what is there.

Whatever is sent, the answer is no failure of the server's, says what to mend, and comes in time; the session goes on,
unless what came was no frame.
"""

import json
import socket
from contextlib import ExitStack
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from tests.fuzz.house import JOB, PATIENCE, SLOW, House, check_problem
from tests.fuzz.pure import CRONS, FILTER_WORDS, MEDIA, ZONES
from tests.fuzz.pure import NAMES as ARTIFACTS
from tests.fuzz.target import Target
from tests.fuzz.values import JSON, TEXTS, bent, spoken
from tests.golden.dialogue import SCRIPT
from tests.golden.samples import sample
from treadle_server.api.endpoint import Endpoint
from treadle_server.api.routes import ENDPOINTS

TASKS = ["$running", "$claimed", "$pending", "$scheduled", "$blocked", "$completed", "$failed", "$paused"]
PLACES = {
    "room": ["lab"] * 8 + ["@global", "@internal"],
    "job_name": [JOB],
    "task_id": TASKS,
    "flow_id": ["$flow"],
    "run_id:int": ["0"],
    "worker_id": ["$worker"],
    "token_id": ["$token_id"],
    "upload_id": ["$upload"],
}
NAMES = {"targets": ["busy"], "schedules": ["hourly"], "webhooks": ["hook"], "artifacts": ["out/a.txt"]}
"""What may stand in a path, by the name of the place; `name` by what is before it."""

WAIT = 0.05
"""Seconds that a claim may wait: twenty are allowed."""

Case = dict[str, Any]


def _path(endpoint: Endpoint) -> st.SearchStrategy[str]:
    """Return paths of the endpoint: mostly with what is there in each place."""
    parts: list[st.SearchStrategy[str]] = []
    before = ""
    for part in endpoint.path.split("/")[1:]:
        name = part.strip("{}")
        if not part.startswith("{"):
            parts.append(st.just(part))
        else:
            there = NAMES.get(before, ["forbidden"]) if name.startswith("name") else PLACES[name]
            known = st.sampled_from(there)
            odd = TEXTS.map(lambda text: quote(text.encode("utf-8", "surrogatepass"), safe=""))
            parts.append(st.integers(0, 9).flatmap(lambda n, known=known, odd=odd: odd if n == 0 else known))  # type: ignore[misc]
        before = part
    return st.tuples(*parts).map(lambda several: "/" + "/".join(several))


def _query(endpoint: Endpoint) -> st.SearchStrategy[dict[str, str]]:
    if "signature" in endpoint.query:
        return st.one_of(st.just({"": "$signed"}), st.dictionaries(st.sampled_from(endpoint.query), TEXTS))
    if not endpoint.query:
        return st.just({})
    values = st.one_of(TEXTS, st.integers(-1, 600).map(str), spoken([*FILTER_WORDS, *TASKS]))
    return st.dictionaries(st.one_of(st.sampled_from(endpoint.query), st.just("unknown")), values, max_size=3)


def _example(endpoint: Endpoint) -> Any:
    assert endpoint.body is not None
    example = sample(endpoint.body.__name__, endpoint.body)
    text = json.dumps(example)
    for given, there in (("0199a5b4-0000-7000-8000-000000000001", "$running"), ("lab:tasks:none", JOB)):
        text = text.replace(given, there)
    example = json.loads(text)
    if "worker_id" in example:
        example["worker_id"] = "$worker"
    return example


def _body(endpoint: Endpoint) -> st.SearchStrategy[Any]:
    """Return bodies: bent examples, any JSON, and what is none; `raw` has a character for each byte."""
    raw = st.binary(max_size=40).map(lambda data: {"raw": data.decode("latin-1")})
    if endpoint.body is None:
        return st.one_of(st.none(), raw)
    examples = bent(_example(endpoint)).map(lambda value: {"json": value})
    return st.one_of(examples, examples, examples, JSON.map(lambda value: {"json": value}), raw)


def _requests(endpoint: Endpoint) -> st.SearchStrategy[Case]:
    return st.fixed_dictionaries(
        {
            "method": st.just(endpoint.method),
            "path": _path(endpoint),
            "query": _query(endpoint),
            "body": _body(endpoint),
        }
    )


def _content(body: Any) -> bytes | None:
    if body is None:
        return None
    return body["raw"].encode("latin-1") if "raw" in body else json.dumps(body["json"]).encode()


class Asked:
    """Checks cases at a server."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._sockets = ExitStack()
        self._socket: ClientConnection | None = None

    def request(self, case: Case) -> None:
        """Send a request."""
        named = json.loads(self._house.named(json.dumps(case)))
        if named["path"] == "/v1/tasks/claim" and isinstance(named["body"].get("json"), dict):
            named["body"]["json"]["wait"] = WAIT
        query = named["query"].get("") or urlencode(named["query"], errors="surrogatepass")
        headers = {"Content-Type": "application/json", **named.get("headers", {})}
        url = f"{named['path']}?{query}" if query else named["path"]
        answer = self._house.http.request(named["method"], url, content=_content(named["body"]), headers=headers)
        self._house.told(answer.status_code, answer.headers.get("content-type", ""), answer.content)

    def head(self, lines: list[str]) -> None:
        """Send a request with headers of any bytes, each a character; there is an answer, or a closed connection."""
        where, token = urlsplit(self._house.served.url), self._house.served.token
        head = ["GET /v1/tasks?limit=1 HTTP/1.1", "Host: x", f"Authorization: Bearer {token}", "Connection: close"]
        data = "\r\n".join([*head, *lines, "", ""]).encode("latin-1", "replace")
        with socket.create_connection((str(where.hostname), int(where.port or 0)), PATIENCE * SLOW) as plain:
            plain.sendall(data)
            answer = b""
            # What promises a body, or to become something else, is not waited for any further.
            while b"\r\n" not in answer and (part := plain.recv(65536)):
                answer += part
        if answer:
            status = int(answer.split(b" ", 2)[1])
            assert status < 500, answer[:1000]
            self._house.answered[status] = self._house.answered.get(status, 0) + 1

    def frame(self, case: Any) -> None:
        """Send a frame; the session goes on, and each of its numbered requests is answered, unless it is no frame."""
        text = self._house.named(case["raw"] if "raw" in case else json.dumps({"items": case["items"]}))
        session = self._session()
        try:
            session.send(text.encode("utf-8", "surrogatepass"), text=True)
            session.send(json.dumps({"items": [{"op": "ping", "n": -77}]}))
            while not self._is_over(json.loads(session.recv(timeout=PATIENCE * SLOW))):
                pass
        except ConnectionClosed as closed:
            self._socket = None
            code = None if closed.rcvd is None else closed.rcvd.code
            assert code in {4400, 1007, 1009}, f"closed with {code}"
            assert not _is_frame(text), f"closed with {code} for a frame"

    def _is_over(self, frame: Any) -> bool:
        for item in frame["items"]:
            if "problem" in item:
                check_problem(item["problem"])
                status = item["problem"]["status"]
                self._house.answered[status] = self._house.answered.get(status, 0) + 1
            elif "re" in item:
                self._house.answered[200] = self._house.answered.get(200, 0) + 1
        return any(item.get("re") == -77 for item in frame["items"])

    def _session(self) -> ClientConnection:
        if self._socket is None:
            url = self._house.served.url.replace("http", "ws", 1) + "/v1/session"
            self._sockets.close()
            opening = connect(url, additional_headers=self._house.served.headers, max_size=None)
            opened = self._sockets.enter_context(opening)
            opened.send(json.dumps({"items": [{"op": "hello", "n": 0, "protocol": 1}]}))
            answer = json.loads(opened.recv(timeout=PATIENCE * SLOW))
            assert "ok" in answer["items"][0], answer
            self._socket = opened
        return self._socket

    def close(self) -> None:
        """Close the session."""
        self._sockets.close()


def _is_frame(text: str) -> bool:
    try:
        frame = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(frame, dict) and set(frame) == {"items"} and isinstance(frame["items"], list)


def _item(op: str, fields: Any, changed: Any) -> dict[str, Any]:
    kept = fields if not isinstance(changed, dict) else changed
    return {"op": op, "n": 1, **kept}


MORE_OPS: list[tuple[str, dict[str, Any]]] = [
    *[(op, fields) for op, fields, _ in SCRIPT if op not in {"hello", "close"}],
    ("watch", {"sub": "s", "topic": "task", "task_id": "$running"}),
    ("watch", {"sub": "s", "topic": "tasks", "window": {"order": "position", "after": "$pending", "limit": 3}}),
    *[("watch", {"sub": topic, "topic": topic}) for topic in ("jobs", "workers", "targets", "schedules", "counts")],
    ("every", {"on": True, "since": {"stream": "s", "seq": 1}, "recent": 5, "brief": True}),
    ("await", {"ids": ["$running", "$completed"]}),
    ("unawait", {"ids": ["$running"]}),
    ("return", {"runs": [{"task_id": "$claimed", "run_id": 0}]}),
    ("schedule", {"room": "lab", "name": "hourly", "action": "run"}),
    ("edits", {"edits": [{"id": "$pending", "priority": 1, "if_version": 1}]}),
    ("actions", {"action": "resume", "filter": {"status": ["paused"]}}),
    ("close", {}),
]


def _items() -> st.SearchStrategy[Any]:
    def one(op: tuple[str, dict[str, Any]]) -> st.SearchStrategy[Any]:
        fields = json.loads(json.dumps(op[1]).replace("$task", "$running"))
        return bent(fields).map(lambda changed: _item(op[0], fields, changed))

    known = st.sampled_from(MORE_OPS).flatmap(one)
    return st.lists(st.one_of(known, known, known, JSON), min_size=1, max_size=3)


FRAME_WORDS = ['{"items":', "[", "]", "{", "}", '{"op":"ping","n":1}', ",", '"n":', "9" * 30, "NaN", "1e999", '"']

HEADER_NAMES = [
    *("Prefer", "Range", "If-Match", "Idempotency-Key", "Treadle-Authorized-Scopes", "Accept", "Authorization"),
    *("Content-Type", "Content-Encoding", "Accept-Encoding", "X-Forwarded-For", "Origin", "traceparent", "Cookie"),
    *("Content-Length", "Transfer-Encoding", "Expect", "Upgrade", "Host"),
]
HEADER_WORDS = ["wait=", "bytes=", "0-1", '["queue:read:lab"]', "Bearer ", "*", ";", ",", "gzip", "chunked", "-1", " "]

_SCHEDULES = st.fixed_dictionaries(
    {"job": st.just(JOB), "cron": CRONS, "zone": st.one_of(*[st.sampled_from(ZONES)] * 4, TEXTS)}
)
_UPLOADS = st.fixed_dictionaries({"name": ARTIFACTS, "content_type": MEDIA, "content_length": st.just(1)})


def _of(method: str, path: str, bodies: st.SearchStrategy[Any]) -> st.SearchStrategy[Case]:
    return bodies.map(lambda body: {"method": method, "path": path, "query": {}, "body": {"json": body}})


def _with_headers(case: Case, name: str, value: str) -> Case:
    kept = value.encode("ascii", "ignore").decode()
    return {**case, "headers": {name: "".join(char for char in kept if char.isprintable()).strip()}}


def targets(asked: Asked) -> list[Target]:
    """Return the targets of a server."""
    requests = st.sampled_from(ENDPOINTS).flatmap(_requests)
    words = st.sampled_from([name for name in HEADER_NAMES if name not in FRAMING])
    plain = st.text(st.characters(min_codepoint=0x20, max_codepoint=0xFF, exclude_characters="\x7f"), max_size=30)
    values = st.one_of(st.lists(st.sampled_from(HEADER_WORDS), max_size=4).map("".join), plain, spoken(HEADER_WORDS))
    lines = st.tuples(st.one_of(*[st.sampled_from(HEADER_NAMES)] * 5, TEXTS), values).map(": ".join)
    raw = st.one_of(spoken(FRAME_WORDS), TEXTS).map(lambda text: {"raw": text})
    items = _items().map(lambda several: {"items": several})
    return [
        Target("request", requests, asked.request),
        Target("request_headers", st.builds(_with_headers, requests, words, spoken(HEADER_WORDS)), asked.request),
        Target("head", st.lists(lines, max_size=3), asked.head),
        Target("frame", st.one_of(items, items, raw), asked.frame),
        Target("schedule", _of("PUT", "/v1/rooms/lab/schedules/odd", _SCHEDULES), asked.request),
        Target("upload", _of("POST", "/v1/tasks/$running/runs/0/artifacts", _UPLOADS), asked.request),
    ]


FRAMING = {"Content-Length", "Transfer-Encoding", "Expect", "Upgrade", "Host", "Authorization"}
"""What frames a request is sent by `head` alone."""

NAMES_OF_TARGETS = ["request", "request_headers", "head", "frame", "schedule", "upload"]
