"""The examples with web frameworks: each with the real framework, a real server and a worker."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any
from uuid import uuid4

import httpx
import pytest
import uvicorn


@contextmanager
def served(app: Any) -> Iterator[str]:
    """Serve an application as its users do: the lifespan and each request in a task of its own."""
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical"))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture
def run(example: Callable[[str], ModuleType], treadle_worker: Any) -> Callable[[], object]:
    """Run what was submitted."""
    return treadle_worker(example("examples.hello").hello).run_all  # type: ignore[no-any-return]


def test_handlers_of_fastapi_find_the_client_of_the_lifespan(example: Any, run: Any) -> None:
    with served(example("examples.with_fastapi").app) as url, httpx.Client(base_url=url, timeout=30) as browser:
        submitted = [browser.post("/hello/Ann").json(), browser.post("/blocking/Ben").json()]
        run()
        results = [browser.get(f"/result/{task_id}").json() for task_id in submitted]
        assert browser.get(f"/result/{uuid4()}").status_code == 404

    assert results == ["Hello, Ann!", "Hello, Ben!"]


def test_a_page_is_sent_what_becomes_of_a_task_as_it_happens(example: Any, run: Any) -> None:
    with served(example("examples.with_fastapi").app) as url, httpx.Client(base_url=url, timeout=30) as browser:
        submitted = browser.post("/hello/Ann").json()
        with browser.stream("GET", f"/progress/{submitted}") as answer:
            events = (json.loads(line.removeprefix("data: ")) for line in answer.iter_lines() if line)
            first = next(events)
            run()
            *_, last = events
        assert browser.get(f"/progress/{uuid4()}").status_code == 404

    assert answer.headers["content-type"].startswith("text/event-stream")
    assert (first["status"], first["queue_position"]) == ("pending", 1)
    assert last == {"status": "completed", "queue_position": None, "progress": None}


def test_views_of_flask_submit_through_the_client_of_their_process(example: Any, run: Any) -> None:
    module = example("examples.with_flask")
    browser = module.app.test_client()
    assert not module.client.is_open

    submitted = browser.post("/hello/Ann").text
    run()

    assert browser.get(f"/result/{submitted}").text == "Hello, Ann!"
    assert browser.get(f"/result/{uuid4()}").status_code == 404
    module.client.close()


def test_views_of_django_submit_through_the_client_of_their_process(example: Any, run: Any) -> None:
    from django.test import Client as Browser

    module = example("examples.with_django")
    # As in its tests: each of them has a handler of its own, with its middleware.
    browsers = [Browser(), Browser()]
    submitted = [browser.post(f"/{how}/Ann").content.decode() for how in ("hello", "async") for browser in browsers]
    run()

    assert [browsers[0].get(f"/result/{task_id}").content for task_id in submitted] == [b"Hello, Ann!"] * 4
    assert browsers[0].get(f"/result/{uuid4()}").status_code == 404
    module.client.close()
