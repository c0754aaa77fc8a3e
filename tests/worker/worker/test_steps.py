"""What a worker asks of the server for a run's steps, while that can't answer."""

from collections import deque
from typing import Any

import pytest

from treadle.encryption.sealer import Sealer
from treadle.errors import ConnectionFailed, Forbidden, error_for, problem_named
from treadle.worker import steps
from treadle.worker.lease import Held
from treadle.worker.reports import Reporter
from treadle.worker.sealing import RunSealing
from treadle.worker.steps import StepKeeper

pytestmark = pytest.mark.anyio


class Busy:
    """A server that says what it is given, one after the other."""

    def __init__(self, *answers: Any) -> None:
        self.answers = deque(answers)

    async def steps(self, ref: dict[str, Any], offset: int) -> dict[str, Any]:
        return self._next()

    async def receive(self, body: dict[str, Any]) -> dict[str, Any]:
        return self._next()

    def _next(self) -> dict[str, Any]:
        answer: dict[str, Any] | Exception = self.answers.popleft()
        if isinstance(answer, Exception):
            raise answer
        return answer


def keeper_at(link: Busy) -> StepKeeper:
    async def nothing(reports: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return []

    reporter = Reporter(nothing, lambda *_: None)
    reporter.online.set()
    return StepKeeper(link, reporter, RunSealing(Sealer(None), {}))


def problem(name: str) -> Exception:
    return error_for(problem_named(name, "not now"))


AWAY = ["store-unavailable", "too-many-requests", "internal-server-error"]


async def test_that_a_step_waits_is_said_once_and_not_at_each_try(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(steps, "delays", lambda: iter([0.0] * 9))
    link = Busy(*(problem("store-unavailable") for _ in range(5)), {"item": None})
    held = Held({"id": "t", "run_id": 0, "seconds_left": 60.0}, 0.0)

    await keeper_at(link).receive(held, {"step": "approved", "occurrence": 0})

    [record] = caplog.records
    assert record.getMessage() == "a step could not be sent yet: Store unavailable: not now; trying again"


@pytest.mark.parametrize("ask", ["kept", "receive"])
async def test_code_does_not_see_that_a_server_or_its_database_was_away(
    monkeypatch: pytest.MonkeyPatch, ask: str
) -> None:
    monkeypatch.setattr(steps, "delays", lambda: iter([0.0] * 9))
    answer: dict[str, Any] = {"items": [], "total": 0} if ask == "kept" else {"item": None}
    link = Busy(ConnectionFailed("gone"), *map(problem, AWAY), answer)
    keeper, held = keeper_at(link), Held({"id": "t", "run_id": 0, "seconds_left": 60.0}, 0.0)

    found = await (keeper.kept(held) if ask == "kept" else keeper.receive(held, {"step": "approved"}))

    assert (found or None, len(link.answers)) == (None, 0)


@pytest.mark.parametrize("odd", [7, {}, {"items": 7, "total": 1, "item": 7}, {"items": [{}], "total": 1, "item": {}}])
@pytest.mark.parametrize("ask", ["kept", "receive"])
async def test_steps_that_can_not_be_read_are_told_and_asked_for_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, ask: str, odd: Any
) -> None:
    """It was a `KeyError` or a `TypeError` in the task's code, which failed by it."""
    monkeypatch.setattr(steps, "delays", lambda: iter([0.0] * 9))
    link = Busy(odd, odd, {"items": [], "total": 0, "item": None})
    keeper, held = keeper_at(link), Held({"id": "t", "run_id": 0, "seconds_left": 60.0}, 0.0)

    found = await (keeper.kept(held) if ask == "kept" else keeper.receive(held, {"step": "approved"}))

    assert (found or None, len(link.answers)) == (None, 0)
    [record] = caplog.records
    assert "a step could not be sent yet: the server's answer can't be read" in record.getMessage()


async def test_what_the_server_refuses_is_raised_in_the_code() -> None:
    keeper, held = keeper_at(Busy(problem("forbidden"))), Held({"id": "t", "run_id": 0, "seconds_left": 60.0}, 0.0)

    with pytest.raises(Forbidden):
        await keeper.kept(held)
