"""Frames of released versions: today's server takes what was sent, and answers with everything that was answered."""

import copy
import json
from pathlib import Path

import pytest

from tests.golden.dialogue import HERE, converse, lost
from treadle_server.testing import serve

pytestmark = pytest.mark.anyio

RELEASED = sorted(HERE.glob("*.json"))


async def test_a_conversation_with_a_released_server_can_still_be_had(tmp_path: Path) -> None:
    async with serve(data_dir=tmp_path) as served:
        today = await converse(served.url, served.token)

    for file in RELEASED:
        then = json.loads(file.read_text())
        assert set(then) - set(today) == set()
        assert {name: gone for name in then if (gone := lost(today[name], then[name], name))} == {}
        # What it is held against says something, and would be missed.
        assert "max_bytes" not in then["00 hello"]["ok"]
        shorter = copy.deepcopy(today)
        del shorter["00 hello"]["ok"]["stream"]
        assert lost(shorter["00 hello"], then["00 hello"]) == [".ok.stream: is left out"]


def test_there_are_frames_of_a_released_version() -> None:
    assert RELEASED, "python -m tests.golden.dialogue writes them"
