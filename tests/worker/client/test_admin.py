"""Upkeep over networks that lose answers."""

import pytest

from tests.chaos.wires import wire_to
from treadle import Client
from treadle.errors import ConnectionLost
from treadle_server.testing import Served

pytestmark = pytest.mark.anyio


async def test_a_webhook_whose_removal_was_not_answered_is_not_said_never_to_have_been(server: Served) -> None:
    """Asked once more, the server would know of none; limits and schedules are removed the same way."""
    async with wire_to(server.url) as wire, Client(wire.url, server.token) as client:
        await client.set_webhook("ci", "https://example.org/hook", room="lab")
        await wire.begin("gateway")

        with pytest.raises(ConnectionLost):
            await client.delete_webhook("ci", room="lab")

        assert wire.met == 1
