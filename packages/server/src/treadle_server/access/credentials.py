"""Temporary credentials, which a claim gives to the task's code: signed, so that no server has to store them.

A credential is a JSON Web Token (RFC 7519, HS256) with the scope to report on one run and the scopes of its task, and
no others; docs/decisions/0013 says why. It ends shortly after the lease that it was made for, and with its run.
"""

import hmac
import math
from base64 import urlsafe_b64encode
from datetime import UTC, datetime, timedelta
from typing import Any

import jwt
import orjson
from sqlalchemy import select

from treadle.wire.ids import TaskId
from treadle.wire.status import LEASED
from treadle_server.access.keys import Keys, SigningKey
from treadle_server.access.principal import Principal
from treadle_server.access.rights import claim_task
from treadle_server.clock import Clock
from treadle_server.domain.tasks import Lease, Task
from treadle_server.errors import Unauthorized
from treadle_server.store.store import SqlStore
from treadle_server.store.tables import tasks

SKEW = timedelta(seconds=5)
"""How long a credential outlives its lease: requests from the lease's last moment may still be on their way."""

ALGORITHM = "HS256"
ISSUER = "treadle"
LONGEST = 64 * 1024
"""The most characters of a credential; a task has at most a hundred scopes of 200 characters."""

_NEEDED = ["exp", "iss", "run", "scopes", "sub", "task"]
# This server's clock decides what has expired, not the library's.
_OPTIONS: Any = {"require": _NEEDED, "verify_exp": False, "verify_iat": False}


class Credentials:
    """Makes and verifies credentials."""

    def __init__(self, store: SqlStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self.keys = Keys(store, clock)

    def mint(self, task: Task | Lease, user: str) -> str:
        """Return a credential for the task's open run, on behalf of `user`.

        It is valid until `SKEW` after the end of the lease. Call `keys.look` before the claim.
        """
        assert task.taken_until is not None
        scopes = [] if task.scopes is None else orjson.loads(task.scopes)
        claims = {
            "iss": ISSUER,
            "sub": user,
            "task": task.id,
            "run": task.run_id,
            "scopes": [claim_task(task.id, task.run_id), *scopes],
            "exp": math.ceil((task.taken_until + SKEW).timestamp()),
        }
        return _signed(claims, self.keys.signing)

    async def principal(self, token: str, *, late: timedelta = timedelta(0)) -> Principal:
        """Return the principal of a credential. Raises `Unauthorized` or `StoreUnavailable`.

        With `late` it is accepted for that long after its end: for routes whose commands check the end of the run
        themselves, such as the upload of artifacts (`AFTER_EXCEPTION`).
        """
        claims = await self._claims(token)
        expires_at = datetime.fromtimestamp(claims["exp"], UTC) + late
        if expires_at <= self._clock.now():
            raise Unauthorized("the credential has expired with its lease: get a new one with reclaim")
        run = (TaskId(claims["task"]), int(claims["run"]))
        return Principal(claims["sub"], scopes=frozenset(claims["scopes"]), run=run, expires_at=expires_at)

    async def _claims(self, token: str) -> dict[str, Any]:
        """Return the claims of a credential with a valid signature. Raises `Unauthorized` or `StoreUnavailable`."""
        refusal = Unauthorized("the credential is not valid here: it was not signed by this server, or too long ago")
        try:
            if len(token) > LONGEST:
                raise refusal
            key_id = jwt.get_unverified_header(token).get("kid")
        except (jwt.PyJWTError, ValueError, RecursionError):
            raise refusal from None
        key = await self.keys.find(key_id) if isinstance(key_id, str) else None
        if key is None:
            raise refusal
        try:
            claims: dict[str, Any] = jwt.decode(
                token, key.secret, algorithms=[ALGORITHM], issuer=ISSUER, options=_OPTIONS
            )
        except jwt.PyJWTError:
            raise refusal from None
        return claims

    async def check_open(self, principal: Principal) -> None:
        """Raise `Unauthorized` if the run of a credential is over, or `StoreUnavailable`.

        Not needed for commands about the run itself: they check its row in their own transaction.
        """
        if principal.run is None:
            return
        task_id, run_id = principal.run
        async with self._store.read_loosely() as connection:
            found = await connection.execute(select(tasks.c.status, tasks.c.run_id).where(tasks.c.id == task_id))
            row = found.first()
        if row is None or row.run_id != run_id or row.status not in LEASED:
            raise Unauthorized(f"run {run_id} of task {task_id} is over, so its credential is no longer valid")


def _signed(claims: dict[str, Any], key: SigningKey) -> str:
    """Return the claims as a token: RFC 7515, section 3.1, with the HS256 of RFC 7518, section 3.2.

    The library, which verifies them, looks up the kind of its key at each signature: 16 us instead of 4.
    """
    header = {"alg": ALGORITHM, "kid": key.id, "typ": "JWT"}
    signed = b".".join(_in_base64(orjson.dumps(part)) for part in (header, claims))
    return b".".join((signed, _in_base64(hmac.digest(key.secret, signed, "sha256")))).decode()


def _in_base64(part: bytes) -> bytes:
    return urlsafe_b64encode(part).rstrip(b"=")
