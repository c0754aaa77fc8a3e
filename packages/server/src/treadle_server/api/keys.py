"""The keys of temporary credentials over HTTP; for superusers."""

from starlette.responses import Response

from treadle.wire.server import KeysRotate
from treadle_server.access.credentials import SKEW
from treadle_server.api.answers import answer
from treadle_server.api.call import Call
from treadle_server.domain.artifacts import AFTER_EXCEPTION


async def rotate(call: Call) -> Response:
    """Sign temporary credentials with a new key; those of the old keys stay valid, unless they are revoked."""
    wanted: KeysRotate = call.body
    ring = call.ctx.access.credentials.keys
    found = await ring.rotate(keeps_for=SKEW + AFTER_EXCEPTION, revokes=wanted.revoke)
    items = [{"id": key.id, "created_at": key.created_at, "valid_until": key.valid_until} for key in found]
    return answer({"items": items}, 201)
