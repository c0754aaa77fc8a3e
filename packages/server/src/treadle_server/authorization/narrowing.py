"""The header with which a proxy that acts for a task gives a request fewer scopes than it holds itself."""

import orjson
from starlette.datastructures import Headers

from treadle_server.access.principal import Principal
from treadle_server.access.scopes import check_scopes
from treadle_server.errors import ValidationFailed

HEADER = "Treadle-Authorized-Scopes"


def narrowed(principal: Principal, headers: Headers) -> Principal:
    """Return the principal, with only the scopes that the header names if there is one.

    Raises `ValidationFailed` if it is not a JSON list of scopes, and `Forbidden` if one of them is not held.
    """
    given = headers.getlist(HEADER)
    if not given:
        return principal
    if len(given) > 1:
        raise ValidationFailed(f"{HEADER}: is given {len(given)} times; send one list of all scopes")
    try:
        scopes = orjson.loads(given[0])
    except orjson.JSONDecodeError:
        scopes = None
    if not (isinstance(scopes, list) and all(isinstance(scope, str) for scope in scopes)):
        raise ValidationFailed(f'{HEADER}: is not a JSON list of scopes, such as ["queue:read:lab"]')
    return principal.narrowed(check_scopes(scopes))
