"""Z18: the client of zndraw-joblib 0.1.7, from PyPI and unchanged, works here with only its base path rewritten."""

import asyncio
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.chaos.processes import ServerProcess, running_server
from tests.conftest import _database_of as database_of
from tests.conftest import _execute as execute
from tests.contract.zndraw.environment import LIMIT, interpreter
from tests.contract.zndraw.pipes import Client, Program, Refused, Serving, ended
from tests.waiting import look_until

pytestmark = [pytest.mark.timeout(2 * LIMIT)]

ROTATE = "modifiers:Rotate"
NewClient = Callable[..., Client]


@pytest.fixture(scope="session")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python that has zndraw-joblib."""
    return interpreter(tmp_path_factory.getbasetemp().parent)


@pytest.fixture(
    scope="module", params=["sqlite", pytest.param("postgres", marks=[pytest.mark.postgres, pytest.mark.crossed])]
)
def new_database(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Callable[[], str]:
    """Makes empty databases of one kind."""
    if request.param == "sqlite":
        return lambda: f"sqlite:///{tmp_path_factory.mktemp('database') / 'treadle.db'}"
    postgres: str = request.getfixturevalue("postgres_url")

    def make() -> str:
        name = f"treadle_zndraw_{uuid4().hex[:12]}"
        asyncio.run(execute(postgres, f'CREATE DATABASE "{name}"'))
        return database_of(postgres, name)

    return make


@pytest.fixture(scope="module")
def server(new_database: Callable[[], str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that sweeps often; each test has a room of its own in it."""
    directory = tmp_path_factory.mktemp("server")
    with running_server(directory, new_database(), TREADLE_SWEEPER_INTERVAL_SECONDS="0.1") as server:
        yield server


@pytest.fixture
def root(server: ServerProcess) -> Iterator[httpx.Client]:
    """The superuser, who speaks to the server itself."""
    with httpx.Client(base_url=f"{server.url}/v1", headers=server.headers, timeout=30) as client:
        yield client


@pytest.fixture
def room() -> str:
    return f"room-{uuid4().hex[:8]}"


@pytest.fixture(scope="session")
def steered(python: Path) -> Iterator[Program]:
    """A process of the package's, for as many clients as there are."""
    program = Program(python, "steered.py")
    with ended(program):
        yield program


@pytest.fixture
def token(server: ServerProcess, root: httpx.Client) -> Callable[[str | None], str]:
    """Makes tokens: the superuser's, or that of an ordinary user with the name given."""
    return lambda user: server.token if user is None else root.post("/tokens", json={"name": user}).json()["token"]


@pytest.fixture
def connect(steered: Program, server: ServerProcess, token: Callable[[str | None], str]) -> NewClient:
    """Makes clients: of the superuser, or of an ordinary user with the name given."""
    return lambda user=None: Client(steered, server.url, token(user))


def submitted(root: httpx.Client, room: str, name: str, payload: dict[str, Any], **options: Any) -> str:
    """Submit a task as the superuser, who is no ordinary worker's user, and return its id."""
    answer = root.post(f"/rooms/{room}/tasks/{room}:{name}", json={"payload": payload, **options})
    assert answer.status_code == 202, answer.text
    return answer.json()["id"]  # type: ignore[no-any-return]


def become(client: httpx.Client, path: str, **wanted: Any) -> dict[str, Any]:
    """Look until what `path` shows has these values."""
    return look_until(lambda: client.get(path).json(), lambda shown: wanted.items() <= shown.items())


def test_a_global_job_is_registered_claimed_from_another_room_run_and_completed(connect: NewClient, room: str) -> None:
    """Z18."""
    worker, user = connect(), connect("alice")
    registered = worker("register", extension="Rotate")
    assert registered["jobs"] == [f"@global:{ROTATE}"]
    assert worker("claim") is None

    first = user("submit", extension="Rotate", arguments={"angle": 90.0}, room=room)
    second = user("submit", extension="Rotate", arguments={"angle": 45.0, "axis": "x"}, room=room)
    waiting = user("request", method="GET", path=f"/tasks/{second}", model="Task")["body"]
    assert (waiting["status"], waiting["queue_position"], waiting["room_id"]) == ("pending", 2, room)

    claimed = worker("claim")
    assert claimed == {
        "task_id": first,
        "job_name": f"@global:{ROTATE}",
        "room_id": room,
        "extension": "Rotate",
        "arguments": {"angle": 90.0, "axis": "z"},
    }
    shown = user("request", method="GET", path=f"/tasks/{first}", model="Task")["body"]
    assert (shown["status"], shown["worker_id"]) == ("claimed", registered["worker_id"])
    worker("start", task=first)
    worker("heartbeat")
    assert worker("run", task=first) == "90 about z"
    worker("complete", task=first)

    done = user("request", method="GET", path=f"/tasks/{first}", model="Task")["body"]
    assert (done["status"], done["error"], done["payload"]) == ("completed", None, {"angle": 90.0, "axis": "z"})
    assert done["created_at"] <= done["started_at"] <= done["completed_at"]
    worker("claim")
    worker("cancel", task=second)
    worker("disconnect")


def test_a_task_fails_with_its_message_whether_started_or_not(connect: NewClient, room: str) -> None:
    """Z18: an older client's failure is final, for its job has no budget of retries."""
    worker = connect("bob")
    worker("register", extension="Measure", room=room)
    started, unstarted = (
        worker("submit", extension="Measure", arguments={"atoms": []}, room=room, job_room=room) for _ in range(2)
    )

    worker("claim")
    worker("start", task=started)
    with pytest.raises(Refused, match="no atoms to measure") as broken:
        worker("run", task=started)
    worker("fail", task=started, error="no atoms to measure")
    worker("claim")
    worker("fail_by_id", task=unstarted, error="cannot be built")

    assert broken.value.raised == "ValueError"
    for task, error in ((started, "no atoms to measure"), (unstarted, "cannot be built")):
        shown = worker("request", method="GET", path=f"/tasks/{task}", model="Task")["body"]
        assert (shown["status"], shown["error"]) == ("failed", error)
        assert shown["completed_at"]


def refusal(client: Client, order: str, **fields: Any) -> str:
    """Return the name of the exception that the package raised; fail if it raised none."""
    with pytest.raises(Refused) as refused:
        client(order, **fields)
    return refused.value.raised


def test_a_task_that_is_cancelled_under_the_workers_feet_is_a_conflict(
    connect: NewClient, root: httpx.Client, room: str
) -> None:
    """Z18: a 409, the client's ValueError, and never the 403 or 404 upon which it would shut down."""
    worker = connect("carol")
    worker("register", extension="Rotate", room=room)
    for is_started in (False, True):
        task = submitted(root, room, ROTATE, {})
        worker("claim")
        if is_started:
            worker("start", task=task)

        assert root.post(f"/tasks/{task}/cancel").status_code == 200

        assert {refusal(worker, order, task=task) for order in ("start", "complete", "cancel")} == {"ValueError"}
        assert refusal(worker, "fail", task=task, error="too late") == "ValueError"
        assert root.get(f"/tasks/{task}").json()["status"] == "cancelled"
    worker("heartbeat")
    assert worker("claim") is None


def test_a_task_that_went_to_another_users_worker_is_a_conflict_for_the_first(
    connect: NewClient, root: httpx.Client, room: str
) -> None:
    """Z18: the first worker's user may not touch the second's run, and is told that the task is lost: 409, not 403."""
    first, second = connect("dave"), connect("erin")
    first("register", extension="Rotate", room=room)
    second("register", extension="Rotate", room=room)
    task = submitted(root, room, ROTATE, {}, max_requeues=1)

    assert first("claim")["task_id"] == task
    taken = root.post(f"/tasks/{task}/runs/0/exception", json={"reason": "intermittent-task"})
    assert taken.json()["status"] == "pending"
    assert second("claim")["task_id"] == task
    second("start", task=task)

    assert {refusal(first, order, task=task) for order in ("start", "complete", "cancel")} == {"ValueError"}
    assert refusal(first, "fail", task=task, error="not mine") == "ValueError"
    second("complete", task=task)
    assert root.get(f"/tasks/{task}").json()["status"] == "completed"


def test_a_stranger_may_not_touch_a_run_that_was_never_theirs(connect: NewClient, room: str) -> None:
    """Z18, Z7."""
    worker, stranger = connect("frank"), connect("grace")
    worker("register", extension="Rotate", room=room)
    task = worker("submit", extension="Rotate", arguments={}, room=room, job_room=room)
    worker("claim")

    assert refusal(stranger, "fail_by_id", task=task, error="mine now") == "PermissionError"

    worker("start", task=task)


def test_whoever_leaves_fails_what_they_held_and_takes_their_job_along(
    connect: NewClient, root: httpx.Client, room: str
) -> None:
    """Z18, Z6, Z11."""
    worker, user = connect("heidi"), connect("ivan")
    worker_id = worker("register", extension="Rotate", room=room)["worker_id"]
    held, waiting = (user("submit", extension="Rotate", arguments={}, room=room, job_room=room) for _ in range(2))
    worker("claim")
    worker("start", task=held)

    worker("disconnect")
    worker("disconnect")

    failed = user("request", method="GET", path=f"/tasks/{held}", model="Task")["body"]
    assert (failed["status"], failed["error"]) == ("failed", "Worker disconnected")
    assert root.get(f"/workers/{worker_id}").status_code == 404
    still = user("request", method="GET", path=f"/tasks/{waiting}", model="Task")["body"]
    assert (still["status"], still["queue_position"]) == ("pending", 1)
    root.post(f"/tasks/{waiting}/cancel")
    assert refusal(user, "submit", extension="Rotate", arguments={}, room=room, job_room=room) == "KeyError"

    again = connect("heidi-again")
    again("register", extension="Rotate", room=room, anew=True)
    job = user("request", method="GET", path=f"/rooms/{room}/jobs/{room}:{ROTATE}", model="Job")
    assert job["body"]["schema"]["required"] == ["degrees"]


def test_what_the_server_refuses_becomes_the_exception_that_the_client_knows(connect: NewClient, room: str) -> None:
    """Z18: KeyError for 404, PermissionError for 403, ValueError for 409 and 422."""
    worker, other = connect("judy"), connect("kevin")
    worker("register", extension="Rotate", room=room)
    refusals = {
        "a global job of no superuser": ("PermissionError", "register", {"extension": "Rotate"}),
        "another schema": ("ValueError", "register", {"extension": "Rotate", "room": room, "anew": True}),
        "a room that is none": ("HTTPStatusError", "register", {"extension": "Rotate", "room": "a:b"}),
        "a job that is not there": (
            "KeyError",
            "submit",
            {"extension": "Measure", "arguments": {"atoms": [1]}, "room": room, "job_room": room},
        ),
        "a job of another room": (
            "KeyError",
            "submit",
            {"extension": "Rotate", "arguments": {}, "room": "elsewhere", "job_room": room},
        ),
        "a task that is not there": ("KeyError", "fail_by_id", {"task": str(uuid4()), "error": "?"}),
    }

    raised = {name: refusal(other, order, **fields) for name, (_, order, fields) in refusals.items()}

    assert raised == {name: expected for name, (expected, _, _) in refusals.items()}


def test_refusals_are_the_problems_that_the_package_names(connect: NewClient) -> None:
    """Z18: read by the package's own model, with the type that it would give itself."""
    client = connect()
    problems = [
        ("GET", f"/tasks/{uuid4()}", None, 404, "task-not-found"),
        ("GET", "/rooms/lab/jobs/nothing", None, 404, "job-not-found"),
        ("GET", "/rooms/a@b/jobs", None, 400, "invalid-room-id"),
        ("PUT", "/rooms/lab/jobs", {"category": "dances", "name": "x", "schema_": {}}, 400, "invalid-category"),
        ("PATCH", f"/workers/{uuid4()}", None, 404, "worker-not-found"),
        ("POST", "/tasks/claim", {"worker_id": str(uuid4())}, 404, "worker-not-found"),
    ]

    for method, path, body, status, kind in problems:
        answer = client("request", method=method, path=path, body=body, model="Problem")
        assert (answer["status"], answer["body"]["status"]) == (status, status), path
        assert answer["headers"]["content-type"] == "application/problem+json"
        assert answer["body"]["type"] == f"/v1/problems/{kind}"


def test_every_list_and_answer_is_read_by_the_packages_own_models(connect: NewClient, room: str) -> None:
    """Z18, Z17."""
    client = connect("laura")
    worker_id = client("create_worker")
    assert client("register", extension="Rotate", room=room)["worker_id"] == worker_id
    client("register", extension="Measure", room=room)
    schema = {"type": "object"}
    given = {"category": "analysis", "name": "Count", "schema": schema, "worker_id": worker_id}

    made = client("request", method="PUT", path=f"/rooms/{room}/jobs", body=given, model="Job")
    same = client("request", method="PUT", path=f"/rooms/{room}/jobs", body=given, model="Job")
    assert (made["status"], same["status"]) == (201, 200)
    assert (same["body"]["schema"], same["body"]["workers"], same["body"]["worker_id"]) == (
        schema,
        [worker_id],
        worker_id,
    )
    jobs = client("request", method="GET", path=f"/rooms/{room}/jobs?limit=500", model="Jobs")["body"]
    own = [job["full_name"] for job in jobs["items"] if job["full_name"].startswith(room)]
    assert own == [f"{room}:analysis:Count", f"{room}:analysis:Measure", f"{room}:{ROTATE}"]
    workers = client("request", method="GET", path=f"/rooms/{room}/workers?limit=500", model="Workers")["body"]
    assert [(one["id"], one["job_count"]) for one in workers["items"] if one["id"] == worker_id] == [(worker_id, 3)]

    path = f"/rooms/{room}/tasks/{room}:{ROTATE}"
    submitted = [client("request", method="POST", path=path, body={"payload": {}}, model="Task") for _ in range(3)]
    assert {one["status"] for one in submitted} == {202}
    assert [one["body"]["queue_position"] for one in submitted] == [1, 2, 3]
    assert submitted[0]["headers"]["retry-after"] == "1"
    ids = [one["body"]["id"] for one in submitted]
    for listed in (f"/rooms/{room}/tasks", f"/rooms/{room}/jobs/{room}:{ROTATE}/tasks"):
        page = client("request", method="GET", path=f"{listed}?status=pending&limit=2&offset=1", model="Tasks")["body"]
        assert (page["total"], page["limit"], page["offset"]) == (3, 2, 1)
        assert [(task["id"], task["queue_position"]) for task in page["items"]] == [(ids[1], 2), (ids[0], 1)]
    beat = client("request", method="PATCH", path=f"/workers/{worker_id}", model="Worker")
    assert (beat["status"], beat["body"]["id"]) == (200, worker_id)
    claim = client("request", method="POST", path="/tasks/claim", body={"worker_id": worker_id}, model="Claim")
    assert (claim["body"]["task"]["id"], claim["body"]["task"]["status"]) == (ids[0], "claimed")
    for status in ("running", "completed"):
        moved = client("request", method="PATCH", path=f"/tasks/{ids[0]}", body={"status": status}, model="Task")
        assert (moved["status"], moved["body"]["status"]) == (200, status)


def test_a_long_poll_ends_with_the_task(
    python: Path, server: ServerProcess, token: Callable[[str | None], str], connect: NewClient, room: str
) -> None:
    """Z18, Z15: `Prefer: wait=N` is held until the task is over, and says that it was."""
    program = Program(python, "steered.py")
    with ended(program):
        user, worker = Client(program, server.url, token("niaj")), connect("mallory")
        worker("register", extension="Rotate", room=room)
        # Whether the question came before the end, its answer says alone: each time the end leaves it twice as long.
        for turn in range(10):
            task = user("submit", extension="Rotate", arguments={}, room=room, job_room=room)
            worker("claim")
            worker("start", task=task)
            user.order("request", method="GET", path=f"/tasks/{task}", model="Task", prefer="wait=30")
            for _ in range(2**turn):
                worker("heartbeat")
            worker("complete", task=task)
            answer = user.answer()
            assert answer["body"]["status"] == "completed"
            if "preference-applied" in answer["headers"]:
                break

    assert answer["headers"]["preference-applied"] == "wait=30"


def test_a_worker_that_was_swept_is_told_that_it_is_no_more(
    steered: Program, new_database: Callable[[], str], tmp_path: Path
) -> None:
    """Z18, Z11: 404 to its heartbeat and its claim, upon which the client ends instead of waiting for ever."""
    settings = {"TREADLE_SWEEPER_INTERVAL_SECONDS": "0.1", "TREADLE_WORKER_TIMEOUT_SECONDS": "3"}
    with (
        running_server(tmp_path, new_database(), **settings) as server,
        httpx.Client(base_url=f"{server.url}/v1", headers=server.headers, timeout=30) as root,
    ):
        worker = Client(steered, server.url, server.token)
        registered = worker("register", extension="Rotate", room="lab")
        task = submitted(root, "lab", ROTATE, {})
        worker("claim")
        worker("start", task=task)

        become(root, f"/workers/{registered['worker_id']}", state="lost")

        assert {refusal(worker, order) for order in ("heartbeat", "claim")} == {"KeyError"}
        assert refusal(worker, "complete", task=task) == "ValueError"
        lost = root.get(f"/tasks/{task}").json()
        assert (lost["status"], lost["error"]) == ("failed", "Worker disconnected")
        assert lost["worker_id"] == registered["worker_id"]


@pytest.fixture
def serving(python: Path, server: ServerProcess, room: str) -> Iterator[Serving]:
    """A client whose own threads work in the room."""
    program = Serving(python, "serving.py", server.url, server.token, room)
    with ended(program):
        yield program


def test_the_clients_own_threads_work_beat_and_leave_at_a_signal(
    serving: Serving, root: httpx.Client, room: str
) -> None:
    """Z18: a success, a failure with its message, heartbeats all the while, and SIGTERM."""
    worker = serving.until("serving")[-1]["worker"]
    good = submitted(root, room, ROTATE, {"angle": 30.0})
    bad = submitted(root, room, "analysis:Measure", {"atoms": []})

    serving.until("begun", task=good)
    before = root.get(f"/workers/{worker}").json()["last_heartbeat"]
    look_until(lambda: root.get(f"/workers/{worker}").json(), lambda shown: shown["last_heartbeat"] != before)
    serving.send()
    assert serving.until("ran", task=good)[-1]["result"] == "30 about z"
    become(root, f"/tasks/{good}", status="completed")
    serving.until("begun", task=bad)
    serving.send()
    failed = become(root, f"/tasks/{bad}", status="failed")
    serving.process.send_signal(signal.SIGTERM)
    told = serving.until("ended")

    assert failed["error"] == "no atoms to measure"
    assert [line["text"] for line in told if line["event"] == "log"] == [f"Task {bad} failed: no atoms to measure"]
    assert root.get(f"/workers/{worker}").status_code == 404
    assert root.get(f"/rooms/{room}/jobs/{room}:{ROTATE}").status_code == 404


def test_the_clients_own_threads_outlive_a_cancel_in_the_middle_of_a_task(
    serving: Serving, root: httpx.Client, room: str
) -> None:
    """Z18: the refused completion is logged, and the next task is worked on."""
    serving.until("serving")
    cancelled = submitted(root, room, ROTATE, {})
    serving.until("begun", task=cancelled)

    root.post(f"/tasks/{cancelled}/cancel")
    serving.send()
    following = submitted(root, room, ROTATE, {"angle": 1.0})
    told = serving.until("begun", task=following)
    serving.send()

    assert become(root, f"/tasks/{following}", status="completed")
    assert root.get(f"/tasks/{cancelled}").json()["status"] == "cancelled"
    assert f"Failed to mark task {cancelled} completed" in [line.get("text") for line in told]


@pytest.mark.crossed
def test_the_clients_own_threads_outlive_a_server_that_is_killed(
    serving: Serving, server: ServerProcess, root: httpx.Client, room: str
) -> None:
    """Z18, G1: what runs is completed on the server that comes back."""
    worker = serving.until("serving")[-1]["worker"]
    task = submitted(root, room, ROTATE, {})
    serving.until("begun", task=task)

    server.kill()
    serving.until("log", level="WARNING")
    server.start()
    serving.send()
    serving.until("ran", task=task)

    assert become(root, f"/tasks/{task}", status="completed")["worker_id"] == worker
