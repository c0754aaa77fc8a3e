"""The token of the executors: it owns their worker, and so reaches what that holds, and nothing else of anybody's."""

import secrets

import orjson
from sqlalchemy import insert, update
from uuid_utils import uuid7

from treadle.wire.names import INTERNAL
from treadle_server.access.rights import CLAIM_TASK, WORKER_ID
from treadle_server.api.auth import digest_of
from treadle_server.api.context import Api
from treadle_server.store.tables import tokens


async def make(api: Api) -> tuple[str, str]:
    """Make a token for this start of the server; return its id and its secret."""
    token_id, secret = str(uuid7()), f"tdl_{secrets.token_urlsafe(32)}"
    values = {
        "id": token_id,
        "name": "executors",
        "user": INTERNAL,
        "digest": digest_of(secret),
        "superuser": False,
        "scopes": orjson.dumps([f"{CLAIM_TASK}*", f"{WORKER_ID}{INTERNAL}/*"]).decode(),
        "created_at": api.now(),
    }
    async with api.engine.store.write() as tx:
        await tx.connection.execute(insert(tokens), values)
    return token_id, secret


async def revoke(api: Api, token_id: str) -> None:
    """Make the token invalid."""
    async with api.engine.store.write() as tx:
        await tx.connection.execute(update(tokens).where(tokens.c.id == token_id).values(revoked_at=api.now()))
