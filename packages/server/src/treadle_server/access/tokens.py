"""Bearer tokens, stored as digests, and the first one, which the server writes to its data directory."""

import asyncio
import contextlib
import logging
import secrets
import socket
import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from urllib.parse import urlsplit

import orjson
from sqlalchemy import Row, func, insert, select, text, update
from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from uuid_utils import uuid7

from treadle.wire.server import TokenCreate
from treadle_server.access.addresses import names_loopback
from treadle_server.access.credentials import Credentials
from treadle_server.access.directory_use import is_in_use
from treadle_server.access.failures import Failures
from treadle_server.access.principal import Principal
from treadle_server.access.scopes import EVERYTHING, check_new
from treadle_server.clock import Clock
from treadle_server.domain.instants import instant
from treadle_server.errors import Forbidden, StoreUnavailable, TooManyRequests, Unauthorized, ValidationFailed
from treadle_server.private import close_to_others, read_file, write_file
from treadle_server.settings import DATA_DIR, Settings
from treadle_server.store.base import Tx
from treadle_server.store.store import SqlStore
from treadle_server.store.tables import tokens

log = logging.getLogger(__name__)

FRESH_SECONDS = 5.0
"""How long a token is trusted without asking the store again: another server may have revoked it."""

MOST_KEPT = 10_000
"""The most tokens in memory; beyond that all are forgotten, and read again when they are used."""

ANYBODY = Principal("admin", superuser=True)
"""The principal of every request if the server runs without tokens."""


@dataclass(frozen=True, slots=True)
class _Cached:
    principal: Principal
    read_at: float


def digest_of(token: str) -> bytes:
    """Return the digest under which a token is stored: tokens are random, so a plain hash is enough.

    A token is looked up by its digest, never compared byte by byte. The time of that reveals nothing about any token,
    because changing one byte of a guess changes the whole digest.
    """
    return sha256(token.encode("utf-8", "surrogatepass")).digest()


def new_token() -> str:
    """Return a new random token."""
    return f"tdl_{secrets.token_urlsafe(32)}"


async def _lock_tokens(tx: Tx) -> None:
    """Keep other servers from making tokens until the commit; on SQLite no other transaction writes anyway."""
    if tx.dialect == "postgresql":
        await tx.connection.execute(text("LOCK TABLE tokens IN SHARE ROW EXCLUSIVE MODE"))


class Access:
    """Knows the principals of tokens, and keeps them in memory until they are revoked or too old."""

    def __init__(self, store: SqlStore, settings: Settings, clock: Clock) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock
        self._kept: dict[bytes, _Cached] = {}
        self.credentials = Credentials(store, clock)
        self.failures = Failures(settings.max_failed_tokens, clock)
        self.revoked = asyncio.Event()
        """Set, and replaced by a new one, whenever a token is revoked."""

    async def prepare(self) -> None:
        """Make sure that there is a key for credentials, and a superuser's token in the data directory.

        Raises `StoreUnavailable`, and `ValidationFailed` if the token file can't be read or written, and if another
        server's clients need the token that is there.
        """
        await self.credentials.keys.prepare()
        path, told = self._settings.token_file, {"name": "the token file", "setting": DATA_DIR}
        if self._settings.auth == "none":
            return
        if await self._is_superuser(read_file(path, **told)):
            with contextlib.suppress(OSError):  # on a read-only mount `treadle doctor` tells who may read it
                close_to_others(path)
            return
        async with self._store.write() as tx:
            await _lock_tokens(tx)
            found = read_file(path, **told)
            if await self._is_superuser(found):
                return  # another server with the same directory has made it meanwhile
            if found and is_in_use(path.parent) and not await self._is_known(tx, found):
                raise ValidationFailed(
                    f"{path} is the token of another database, whose server uses this data directory: give this server"
                    f" one of its own ({DATA_DIR}), or stop the other one"
                )
            token = new_token()
            # Before the store has it: otherwise a failed write would leave a superuser's token that nobody knows.
            write_file(path, f"{token}\n", **told)
            name = f"local-{socket.gethostname()}"[:64]
            await self.issue(token, name, user="admin", superuser=True, within=tx)
        if found:
            log.warning(
                "a new token replaced the one in %s, which was not valid in this database (revoked, or another"
                " database's): give each database a data directory of its own (%s)", path, DATA_DIR,
            )  # fmt: skip

    async def _is_known(self, tx: Tx, token: str) -> bool:
        """Return whether the database has the token, valid or not."""
        known = select(tokens.c.id).where(tokens.c.digest == digest_of(token))
        return (await tx.connection.execute(known)).first() is not None

    async def _is_superuser(self, token: str | None) -> bool:
        if not token:
            return False
        try:
            return (await self.principal(token)).superuser
        except Unauthorized:
            return False

    async def identify(
        self, token: str | None, address: str, *, of_run: bool = False, late: timedelta = timedelta(0)
    ) -> Principal:
        """Return the principal of a token that came from an address; `of_run` and `late` are those of `principal`.

        Raises `Unauthorized`, or `TooManyRequests` instead if too many invalid tokens came from that address, and
        `StoreUnavailable`. A valid token is always accepted, as its holder may share the address with a client that
        guesses.
        """
        try:
            return await self.principal(token, of_run=of_run, late=late)
        except Unauthorized:
            wait = self.failures.note(address) if token else None
            if wait is None:
                raise
            raise TooManyRequests(
                "too many invalid tokens came from this address; a valid one is still accepted", retry_after=wait
            ) from None

    async def until_invalid(self, token: str | None) -> None:
        """Wait until a token expires or is revoked, here or elsewhere; then raise `Unauthorized`."""
        while True:
            revoked, expires_at = self.revoked, None
            # While the store does not answer, try again in the next turn.
            with contextlib.suppress(StoreUnavailable):
                expires_at = (await self.principal(token)).expires_at
            await self.until_unconfirmed(revoked, expires_at)

    async def until_unconfirmed(self, revoked: asyncio.Event, expires_at: datetime | None = None) -> None:
        """Wait until a token must be looked up again: some token was `revoked`, it expires, or its time is up."""
        seconds = FRESH_SECONDS
        if expires_at is not None:
            seconds = max(0.0, min(seconds, (expires_at - self._clock.now()).total_seconds()))
        try:
            async with asyncio.timeout(seconds):
                await revoked.wait()
        except TimeoutError:
            return

    async def principal(self, token: str | None, *, of_run: bool = False, late: timedelta = timedelta(0)) -> Principal:
        """Return the principal of a token. Raises `Unauthorized` or `StoreUnavailable`.

        A temporary credential ends with its run, except for an operation `of_run`, whose command checks that itself.
        It is accepted for `late` longer than it is valid.
        """
        if self._settings.auth == "none":
            return ANYBODY
        if not token:
            raise Unauthorized("send a token: Authorization: Bearer …")
        if token.count(".") == 2:  # the form of a credential, not of a stored token
            principal = await self.credentials.principal(token, late=late)
            if not of_run:
                await self.credentials.check_open(principal)
            return principal
        digest = digest_of(token)
        kept = self._kept.get(digest)
        if kept is None or time.monotonic() - kept.read_at > FRESH_SECONDS:
            kept = await self._read(digest)
        expires_at = kept.principal.expires_at
        if expires_at is not None and expires_at <= self._clock.now():
            raise Unauthorized("the token has expired; ask a superuser for a new one")
        return kept.principal

    async def _read(self, digest: bytes) -> _Cached:
        revoked = self.revoked
        async with self._store.read() as connection:
            row = (await connection.execute(select(tokens).where(tokens.c.digest == digest))).first()
        if row is None or row.revoked_at is not None:
            self._kept.pop(digest, None)
            # Also the reason in a websocket's close frame, which has room for 120 characters.
            raise Unauthorized(
                "the token is not valid here (revoked, or another server's): make one with `treadle token create`"
            )
        if len(self._kept) >= MOST_KEPT:
            self._kept.clear()
        scopes = frozenset(orjson.loads(row.scopes)) or None
        principal = Principal(row.user, row.superuser, scopes, expires_at=row.expires_at)
        kept = _Cached(principal, time.monotonic())
        if self.revoked is revoked:
            # Otherwise it may have been read before it was revoked.
            self._kept[digest] = kept
        return kept

    async def make(self, wanted: TokenCreate) -> tuple[Row[tuple[object, ...]], str]:
        """Make a token; return its row and the token itself. Raises `ValidationFailed`."""
        expires_at = instant(wanted.expires_at, "expires_at")
        if expires_at is not None and expires_at <= self._clock.now():
            raise ValidationFailed("expires_at: is in the past")
        scopes = None if wanted.scopes is None else check_new(wanted.scopes)
        if scopes == ():
            raise ValidationFailed("scopes: is empty; leave it out for the rights of a plain user")
        if scopes and wanted.superuser:
            raise ValidationFailed("scopes: a superuser has all of them; leave it out, or leave out superuser")
        superuser = wanted.superuser or EVERYTHING in (scopes or ())
        token = new_token()
        row = await self.issue(
            token,
            wanted.name,
            user=wanted.name,
            superuser=superuser,
            scopes=None if superuser else scopes,
            expires_at=expires_at,
        )
        return row, token

    async def issue(
        self,
        token: str,
        name: str,
        *,
        user: str,
        superuser: bool = False,
        scopes: tuple[str, ...] | None = None,
        expires_at: datetime | None = None,
        within: Tx | None = None,
    ) -> Row[tuple[object, ...]]:
        """Store a new token of a user, with these scopes, and return its row; the arguments are not checked.

        Uses the open transaction `within`, or else one of its own. Raises `StoreUnavailable`.
        """
        values = {
            "id": str(uuid7()),
            "name": name,
            "user": user,
            "digest": digest_of(token),
            "superuser": superuser,
            "scopes": orjson.dumps(scopes or []).decode(),
            "created_at": self._clock.now(),
            "expires_at": expires_at,
        }
        async with self._store.write() if within is None else contextlib.nullcontext(within) as tx:
            await tx.connection.execute(insert(tokens), values)
            return (await tx.connection.execute(select(tokens).where(tokens.c.id == values["id"]))).one()

    async def page(self, *, limit: int, offset: int) -> tuple[list[Row[tuple[object, ...]]], int]:
        """Return up to `limit` rows of `tokens` after the first `offset`, newest first, and their total."""
        async with self._store.read() as connection:
            total = (await connection.execute(select(func.count()).select_from(tokens))).scalar_one()
            newest = select(tokens).order_by(tokens.c.created_at.desc(), tokens.c.id.desc())
            rows = list(await connection.execute(newest.limit(limit).offset(offset)))
        return rows, total

    async def revoke(self, token_id: str) -> bool:
        """Make the token invalid at once; return whether there is such a token."""
        revoked = update(tokens).where(tokens.c.id == token_id, tokens.c.revoked_at.is_(None))
        async with self._store.write() as tx:
            found = (await tx.connection.execute(select(tokens.c.id).where(tokens.c.id == token_id))).first()
            await tx.connection.execute(revoked.values(revoked_at=self._clock.now()))
        self._kept.clear()
        self.revoked.set()
        self.revoked = asyncio.Event()
        return found is not None

    def check_page(self, headers: Headers) -> None:
        """Raise `Forbidden` for pages of another site or host name if no tokens keep them out.

        A browser sends the page's origin; after DNS rebinding, Host has the rebound name.
        """
        if self._settings.auth == "none":
            if not names_loopback(headers.get("host", "")):
                raise Forbidden("the Host header must name localhost, 127.0.0.1 or [::1], as the server has no tokens")
            self.check_origin(headers)

    def check_origin(self, headers: Headers) -> None:
        """Raise `Forbidden` for the web page of another site, by the `Origin` that its browser sends.

        Sites in `allowed_origins` are accepted.
        """
        origin = headers.get("origin")
        if origin is None or origin in self._settings.allowed_origins:
            return
        if _host_of(origin) != headers.get("host", ""):
            raise Forbidden(f"web pages of {origin[:200]} may not use this server; see TREADLE_ALLOWED_ORIGINS")


def bearer(headers: Headers) -> str | None:
    """Return the token of the Authorization header. Raises `Unauthorized` for another scheme."""
    value = headers.get("authorization")
    if value is None:
        return None
    scheme, _, token = value.partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise Unauthorized("the Authorization header must have the form: Bearer …")
    return token.strip()


def address_of(connection: HTTPConnection) -> str:
    """Return the client's address of a request or websocket."""
    return connection.client.host if connection.client is not None else ""


def _host_of(origin: str) -> str | None:
    """Return the host and port of an origin; None if it is malformed."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None
