"""The application by itself, as another one mounts it."""

from pathlib import Path
from uuid import uuid4

import httpx

from treadle.wire.ids import WorkerId
from treadle_server.app import create_app
from treadle_server.engine.hub import Batch
from treadle_server.errors import NOT_STARTED
from treadle_server.services.relay import codec
from treadle_server.services.relay.sender import NoticeSender
from treadle_server.settings import Settings


async def test_an_application_whose_lifespan_nobody_runs_says_so_and_keeps_nobody_waiting(tmp_path: Path) -> None:
    """All was said to be well, and what was to be written waited for ever."""
    app = create_app(Settings(data_dir=tmp_path, auth="none"))
    job = {"category": "tasks", "name": "add"}
    try:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as http:
            ready = await http.get("/readyz")
            put = await http.put("/v1/rooms/lab/jobs", json=job)
    finally:
        await app.state.ctx.engine.store.close()

    assert (ready.status_code, ready.json()["services"]["server"]) == (503, NOT_STARTED)
    assert (put.status_code, put.json()["detail"]) == (503, NOT_STARTED)


async def test_an_application_that_was_made_before_its_process_was_forked_is_a_server_of_its_own(
    tmp_path: Path,
) -> None:
    """All that gunicorn forks with --preload had one name on PostgreSQL, and took what others told for their own."""
    app = create_app(Settings(data_dir=tmp_path, auth="none"))
    engine = app.state.ctx.engine
    sender, made = NoticeSender(engine), engine.hub.stream

    async with app.router.lifespan_context(app):
        sender.note_peers(are_there=True)
        sender.add(Batch(engine.clock.now(), freed={WorkerId(str(uuid4()))}))
        [text] = sender.take()

    assert codec.read(text).server == engine.hub.stream != made
