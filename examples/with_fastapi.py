"""FastAPI: the lifespan opens one client, and every handler uses it.

Run `treadle worker examples.hello` and `uvicorn examples.with_fastapi:app`. `curl -X POST localhost:8000/hello/Ann`
returns an id, and `curl localhost:8000/progress/ID` follows that task.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import UUID

from examples.hello import hello
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, StreamingResponse

from treadle import Client, current_client
from treadle.errors import TaskNotFound


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with Client():
        yield


app = FastAPI(lifespan=lifespan)


@app.exception_handler(TaskNotFound)
async def not_there(request: Request, error: TaskNotFound) -> JSONResponse:
    return JSONResponse({"detail": "there is no such task"}, 404)


@app.post("/hello/{name}")
async def submit(name: str) -> str:
    return (await hello.submit(name)).id


@app.post("/blocking/{name}")
def submit_in_a_thread(name: str) -> str:
    """FastAPI runs handlers that are not async in threads."""
    return hello.submit_sync(name).id


@app.get("/result/{task_id}")
async def result(task_id: UUID) -> str:
    greeting: str = await current_client().handle(task_id).result(timeout=30)
    return greeting


@app.get("/progress/{task_id}")
async def progress(task_id: UUID) -> StreamingResponse:
    """For a page's `new EventSource("/progress/…")`; it must call `close()` at the task's end, or it asks for ever."""
    handle = current_client().handle(task_id)
    await handle.get()  # raises TaskNotFound now: a stream that has begun can't

    async def events() -> AsyncIterator[str]:
        async for task in handle.follow():
            yield f"data: {task.model_dump_json(include={'status', 'queue_position', 'progress'})}\n\n"

    return StreamingResponse(events(), media_type="text/event-stream")
