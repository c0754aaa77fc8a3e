"""Who asks: bearer tokens, kept as digests, and the first one, which the server writes to its data directory."""

import asyncio
import contextlib
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

FRESH_SECONDS = 5.0
"""How long a token is trusted without asking the store: another server may have revoked it."""

MOST_KEPT = 10_000
"""Tokens in memory; when there are more, all are forgotten and read again as they come."""

ANYBODY = Principal("admin", superuser=True)
"""Whoever asks when the server runs without tokens."""


@dataclass(frozen=True, slots=True)
class _Cached:
    principal: Principal
    read_at: float


def digest_of(token: str) -> bytes:
    """Return what is kept of a token: it is random, so that a plain hash is enough.

    A token is looked up by its digest, never compared byte by byte: the time that takes tells nothing of any token, for
    who changes a byte of his guess gets another digest altogether.
    """
    return sha256(token.encode("utf-8", "surrogatepass")).digest()


def new_token() -> str:
    """Return a token that nobody has."""
    return f"tdl_{secrets.token_urlsafe(32)}"


async def _alone(tx: Tx) -> None:
    """Wait until no other server makes a token, and keep others from it until the commit; on SQLite none writes."""
    if tx.dialect == "postgresql":
        await tx.connection.execute(text("LOCK TABLE tokens IN SHARE ROW EXCLUSIVE MODE"))


class Access:
    """Knows whose a token is and what it may do; what it has read it keeps in memory until it is revoked or too old."""

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
        """See to it that there is a key for credentials, and that the data directory holds a superuser's token.

        Raises `StoreUnavailable`, and `ValidationFailed` when the token's file can't be read or written.
        """
        await self.credentials.keys.prepare()
        path, told = self._settings.token_file, {"name": "the token's file", "setting": DATA_DIR}
        if self._settings.auth == "none":
            return
        if await self._is_superuser(read_file(path, **told)):
            with contextlib.suppress(OSError):  # where the file is mounted to be read alone, the doctor says who may
                close_to_others(path)
            return
        async with self._store.write() as tx:
            await _alone(tx)
            if await self._is_superuser(read_file(path, **told)):
                return  # another server that has this directory too has made it meanwhile
            token = new_token()
            # Before the store knows it: a start that can't write it would leave a superuser's token that nobody has.
            write_file(path, f"{token}\n", **told)
            name = f"local-{socket.gethostname()}"[:64]
            await self.issue(token, name, user="admin", superuser=True, within=tx)

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
        """Return who holds the token that came from an address; `of_run` and `late` as of `principal`.

        Raises `Unauthorized`, or instead `TooManyRequests` when too many tokens that are none came from there, and
        `StoreUnavailable`. A valid one always gets in: it is looked up whatever came before it, for whoever holds it
        may share the address with one who guesses.
        """
        try:
            return await self.principal(token, of_run=of_run, late=late)
        except Unauthorized:
            wait = self.failures.note(address) if token else None
            if wait is None:
                raise
            raise TooManyRequests(
                "too many tokens that are not valid came from this address; a valid one is let in", retry_after=wait
            ) from None

    async def until_invalid(self, token: str | None) -> None:
        """Wait for the end of a token: `Unauthorized` is raised when it expires, or is revoked here or elsewhere."""
        while True:
            revoked, expires_at = self.revoked, None
            # While the store does not answer, nobody can be asked; the next turn will.
            with contextlib.suppress(StoreUnavailable):
                expires_at = (await self.principal(token)).expires_at
            await self.until_unconfirmed(revoked, expires_at)

    async def until_unconfirmed(self, revoked: asyncio.Event, expires_at: datetime | None = None) -> None:
        """Return when a token is to be looked up again: one was `revoked`, it expires, or some seconds have passed."""
        seconds = FRESH_SECONDS
        if expires_at is not None:
            seconds = max(0.0, min(seconds, (expires_at - self._clock.now()).total_seconds()))
        try:
            async with asyncio.timeout(seconds):
                await revoked.wait()
        except TimeoutError:
            return

    async def principal(self, token: str | None, *, of_run: bool = False, late: timedelta = timedelta(0)) -> Principal:
        """Return who holds the token. Raises `Unauthorized`, or `StoreUnavailable`.

        A temporary credential ends with its run, unless what is asked for is `of_run`: then the command says so. It is
        taken for `late` longer than it lives.
        """
        if self._settings.auth == "none":
            return ANYBODY
        if not token:
            raise Unauthorized("send a token: Authorization: Bearer …")
        if token.count(".") == 2:  # the form of a credential, which no token of the database has
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
            # It goes into the reason of a websocket's close code too, which takes no more than 120 characters.
            raise Unauthorized(
                "the token is not valid here (revoked, or another server's): `treadle token create` makes others"
            )
        if len(self._kept) >= MOST_KEPT:
            self._kept.clear()
        scopes = frozenset(orjson.loads(row.scopes)) or None
        principal = Principal(row.user, row.superuser, scopes, expires_at=row.expires_at)
        kept = _Cached(principal, time.monotonic())
        if self.revoked is revoked:
            # Else it may have been read before it was revoked.
            self._kept[digest] = kept
        return kept

    async def make(self, wanted: TokenCreate) -> tuple[Row[tuple[object, ...]], str]:
        """Make a token and return its row and its secret. Raises `ValidationFailed`."""
        expires_at = instant(wanted.expires_at, "expires_at")
        if expires_at is not None and expires_at <= self._clock.now():
            raise ValidationFailed("expires_at: is in the past")
        scopes = None if wanted.scopes is None else check_new(wanted.scopes)
        if scopes == ():
            raise ValidationFailed("scopes: are none; leave them out for the rights of a plain user")
        if scopes and wanted.superuser:
            raise ValidationFailed("scopes: a superuser has all of them; leave them out, or leave out superuser")
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
        """Let a new token be a user's, with these scopes, and return its row; what is given is not checked.

        `within` a transaction that is open, or else in one of its own. Raises `StoreUnavailable`.
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
        """Return up to `limit` rows of `tokens` behind the first `offset`, newest first, and their total."""
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
        """Keep web pages out where no token does: raises `Forbidden` for a page of another site or name.

        A browser names the page's origin, and a name that was rebound to this address stands in Host.
        """
        if self._settings.auth == "none":
            if not names_loopback(headers.get("host", "")):
                raise Forbidden("a server without tokens answers to localhost, 127.0.0.1 and [::1] only")
            self.check_origin(headers)

    def check_origin(self, headers: Headers) -> None:
        """Raise `Forbidden` when a web page of another site asks, by the `Origin` that its browser sends.

        Sites that `allowed_origins` names may ask.
        """
        origin = headers.get("origin")
        if origin is None or origin in self._settings.allowed_origins:
            return
        if _place(origin) != headers.get("host", ""):
            raise Forbidden(f"pages of {origin[:200]} may not use this server; see TREADLE_ALLOWED_ORIGINS")


def bearer(headers: Headers) -> str | None:
    """Return the token of the Authorization header. Raises `Unauthorized` for another scheme."""
    value = headers.get("authorization")
    if value is None:
        return None
    scheme, _, token = value.partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise Unauthorized("the Authorization header is not of the form: Bearer …")
    return token.strip()


def address_of(connection: HTTPConnection) -> str:
    """Return the address that a request or a socket comes from."""
    return connection.client.host if connection.client is not None else ""


def _place(origin: str) -> str | None:
    """Return the host and port of an origin; None when it is none."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None
