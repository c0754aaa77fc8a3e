"""This server's signed URLs: each permits, without a token, the one action that it names."""

import hmac
from datetime import datetime
from hashlib import sha256
from secrets import token_hex

from sqlalchemy import select, text

from treadle_server.domain.artifacts import Artifact
from treadle_server.errors import Forbidden
from treadle_server.store.store import SqlStore
from treadle_server.store.tables import meta

KEY = "artifacts_key"
"""The key's row in the table `meta`, which all servers of a database share."""


async def key_of(store: SqlStore) -> bytes:
    """Return the database's key, creating it if there is none. Raises `StoreUnavailable`."""
    async with store.write() as tx:
        made = text("INSERT INTO meta (key, value) VALUES (:key, :value) ON CONFLICT DO NOTHING")
        await tx.connection.execute(made, {"key": KEY, "value": token_hex(32)})
        value = (await tx.connection.execute(select(meta.c.value).where(meta.c.key == KEY))).scalar_one()
    return bytes.fromhex(value)


class Signer:
    """Signs with one key."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self.site = hmac.digest(key, b"site", sha256).hex()[:16]
        """A name for the database that reveals nothing about the key."""

    def sign(self, method: str, artifact: Artifact, expires: int) -> str:
        """Return the signature of a method and an artifact's bytes, valid until `expires`, in seconds since 1970."""
        said = f"{method}\n{artifact.id}\n{artifact.content_type}\n{artifact.size}\n{expires}"
        return hmac.digest(self._key, said.encode(), sha256).hex()

    def check(self, method: str, artifact: Artifact, expires: str, signature: str, now: datetime) -> None:
        """Raise `Forbidden` unless the signature matches and has not expired."""
        is_number = expires.isascii() and expires.isdecimal() and len(expires) <= 12
        wanted = self.sign(method, artifact, int(expires)) if is_number else ""
        if not hmac.compare_digest(wanted.encode(), signature.encode("utf-8", "replace")) or not wanted:
            raise Forbidden("the URL's signature does not match: use it unchanged, with the method it was made for")
        if now.timestamp() >= int(expires):
            raise Forbidden("the URL has expired: announce the artifact again for a new one")
