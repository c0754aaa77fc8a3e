"""FastAPI: the lifespan opens one client, and every handler finds it.

Run `treadle worker examples.hello` and `uvicorn examples.with_fastapi:app`, then
`curl -X POST localhost:8000/hello/Ann`.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from examples.hello import hello
from fastapi import FastAPI

from treadle import Client, current_client


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
async def result(task_id: str) -> str:
    greeting: str = await current_client().handle(task_id).result(timeout=30)
    return greeting
