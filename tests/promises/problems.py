"""A refusal, whichever way it came."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx


class Problem(Exception):
    """What the server answers to a request that it refuses (RFC 9457)."""

    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__(f"{body['status']} {body['type']}: {body.get('detail')}")
        self.status: int = body["status"]
        self.type: str = body["type"].removeprefix("/v1/problems/")
        self.detail: str = body["detail"]


def told(answer: httpx.Response) -> Any:
    """Return the body of an answer. Raises `Problem`; fails when a refusal is no well-formed problem."""
    if answer.is_success or answer.is_redirect:
        return answer.json() if answer.content else {}
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    body = answer.json()
    assert body["status"] == answer.status_code
    assert body["title"]
    assert body["detail"]
    raise Problem(body)


@contextmanager
def refused(kind: str, status: int) -> Iterator[list[Problem]]:
    """Expect the block to be refused with this problem; the list holds it afterwards."""
    caught: list[Problem] = []
    try:
        yield caught
    except Problem as problem:
        caught.append(problem)
    assert caught, f"not refused; expected {status} {kind}"
    assert (caught[0].status, caught[0].type) == (status, kind), caught[0]


@contextmanager
def refused_as_any(kinds: set[str], what: str) -> Iterator[None]:
    """Expect the block to be refused with one of these problems; `what` is said when it is not."""
    try:
        yield
    except Problem as problem:
        kind = problem.type
    else:
        kind = "nothing"
    assert kind in kinds, f"{what}: refused with {kind}"
