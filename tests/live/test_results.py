"""Awaited results that nobody told of: the store is asked of each of them, in turns."""

from typing import Any
from unittest.mock import Mock

import pytest

from treadle.ids import new_task_id
from treadle_server.live import results
from treadle_server.live.results import PARTS, Results

pytestmark = pytest.mark.anyio


async def test_of_each_awaited_task_the_store_is_asked_once_in_so_many_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "POLL_SECONDS", 0)
    asked: list[list[Any]] = []

    async def ended(_: Results, ids: list[Any]) -> list[Any]:
        asked.append(ids)
        return []

    monkeypatch.setattr(Results, "_ended", ended)
    awaited = [new_task_id() for _ in range(200)]
    polled = Results(Mock(is_shared=True))
    polled.want(Mock(awaited=set()), awaited)
    for _ in range(PARTS):
        await polled.turn()

    assert sorted(one for ids in asked for one in ids) == sorted(awaited)
    assert max(map(len, asked)) < len(awaited) / 2
