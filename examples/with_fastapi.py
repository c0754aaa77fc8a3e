"""FastAPI: the lifespan opens one client, and every handler finds it.

Run `treadle worker examples.hello` and `uvicorn examples.with_fastapi:app`, then
`curl -X POST localhost:8000/hello/Ann`; with the id that it answers, `curl localhost:8000/progress/ID` shows
what becomes of the task.
"""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import UUID

from examples.hello import hello
from fastapi import FastAPI, HTTPException
from fastapi.responses import StreamingResponse

from treadle import Client, current_client
from treadle.errors import TaskNotFound


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with Client():
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/hello/{name}")
async def submit(name: str) -> str:
    handle = await hello.submit(name)
    return handle.id


@app.post("/blocking/{name}")
def submit_in_a_thread(name: str) -> str:
    """FastAPI runs handlers that are not async in threads."""
    return hello.submit_sync(name).id


@app.get("/result/{task_id}")
async def result(task_id: UUID) -> str:
    try:
        greeting: str = await current_client().handle(str(task_id)).result(timeout=30)
    except TaskNotFound:
        raise HTTPException(404, "there is no such task") from None
    return greeting


@app.get("/progress/{task_id}")
async def progress(task_id: UUID) -> StreamingResponse:
    """What `new EventSource("/progress/…")` of a page reads: each change as it happens, until the task has ended.

    The page calls its `close()` then: a browser takes an end for a broken connection, and asks again for ever.
    """
    handle = current_client().handle(str(task_id))
    try:
        await handle.get()
    except TaskNotFound:
        raise HTTPException(404, "there is no such task") from None

    async def events() -> AsyncIterator[str]:
        async for task in handle.follow():
            shown = {"status": task.status, "place": task.queue_position, "progress": task.progress}
            yield f"data: {json.dumps(shown)}\n\n"

    return StreamingResponse(events(), media_type="text/event-stream")
