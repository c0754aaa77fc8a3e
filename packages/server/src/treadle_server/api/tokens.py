"""Tokens over HTTP; for superusers."""

from typing import Any

import orjson
from starlette.responses import Response

from treadle.wire.ids import is_uuid
from treadle.wire.server import TokenItem
from treadle_server.api.answers import answer
from treadle_server.api.call import Call
from treadle_server.errors import NoSuchRoute
from treadle_server.operations.encode import page_data, whoami_data


def _data(row: Any) -> dict[str, Any]:
    """Return the token as `TokenItem`."""
    return {name: getattr(row, name) for name in TokenItem.model_fields} | {"scopes": orjson.Fragment(row.scopes)}


async def make(call: Call) -> Response:
    """Create a token; its secret is shown only now."""
    row, token = await call.ctx.access.make(call.body)
    return answer({**_data(row), "token": token}, 201)


async def list_all(call: Call) -> Response:
    """List the tokens, newest first, without their secrets."""
    limit, offset = call.limit(), call.offset()
    rows, total = await call.ctx.access.page(limit=limit, offset=offset)
    return answer(page_data([_data(row) for row in rows], total, limit, offset))


async def revoke(call: Call) -> Response:
    """Make a token invalid at once.

    Raises `NoSuchRoute` if there is no token of this id.
    """
    token_id = call.path("token_id").lower()
    if not (is_uuid(token_id) and await call.ctx.access.revoke(token_id)):
        raise NoSuchRoute(f"there is no token {token_id[:80]}")
    return Response(status_code=204)


async def whoami(call: Call) -> Response:
    """Get who the token belongs to."""
    return answer(whoami_data(call.principal))
