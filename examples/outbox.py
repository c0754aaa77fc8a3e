"""The outbox: an order and the task that confirms it share one transaction, with FastAPI and SQLAlchemy.

Run `treadle worker examples.outbox` and `uvicorn examples.outbox:app`, then
`curl -X POST localhost:8000/orders/tea`. Kill either process at any moment: there is never an order without its task,
or a task without its order.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from sqlalchemy import Column, Integer, MetaData, String, Table, insert
from sqlalchemy.ext.asyncio import create_async_engine

from treadle import outbox, task

engine = create_async_engine(os.environ.get("SHOP_DATABASE", "sqlite+aiosqlite:///shop.db"))
metadata = MetaData()
orders = Table("orders", metadata, Column("id", Integer, primary_key=True), Column("item", String(100)))
outbox_table = outbox.table_in(metadata)  # created, and migrated, with the tables of the shop


@task(category="tasks", max_retries=5)
async def confirm(order: int, item: str) -> str:
    return f"Order {order}: {item} is on its way"


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with engine.begin() as connection:
        await connection.run_sync(metadata.create_all)
    async with outbox.Relay(engine):
        yield
    await engine.dispose()


app = FastAPI(lifespan=lifespan)


@app.post("/orders/{item}")
async def order(item: str) -> str:
    async with engine.begin() as connection:
        made = await connection.execute(insert(orders).values(item=item).returning(orders.c.id))
        number = made.scalar_one()
        # Both are committed when the block ends, or neither.
        return await outbox.submit(connection, confirm.bind(order=number, item=item))
