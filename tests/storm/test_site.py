"""What a storm falls upon: all that run there see the clock that is set."""

from datetime import datetime
from pathlib import Path

import httpx
import pytest

from tests.clients import PLAIN
from tests.storm.faults import set_clock
from tests.storm.site import Site, Tools, site

pytestmark = [pytest.mark.anyio, pytest.mark.postgres]


async def made_at(here: Site, name: str) -> datetime:
    """Make a limit, and return when that was by the store's clock."""
    [server] = here.servers.values()
    async with httpx.AsyncClient(base_url=server.url, headers=here.headers, verify=PLAIN) as http:
        answer = await http.put(f"/v1/rooms/lab/limits/{name}", json={"concurrency": 1})
    return datetime.fromisoformat(answer.raise_for_status().json()["created_at"])


async def test_a_server_that_was_connected_before_the_databases_clock_was_set_goes_by_it(tmp_path: Path) -> None:
    async with site(tmp_path, 1, Tools(), on_postgres=True) as here:
        before = await made_at(here, "before")
        await set_clock(here, 3_600.0)
        after = await made_at(here, "after")

    assert (after - before).total_seconds() >= 3_600
