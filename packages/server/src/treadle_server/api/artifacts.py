"""Artifacts over HTTP: announce, upload, finish, list and fetch (C10)."""

import logging
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, Literal

from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.types import Send
from uuid_utils import uuid7

from treadle.wire.artifacts import ArtifactCreate
from treadle.wire.ids import is_uuid
from treadle_server.access.trust import trust
from treadle_server.api.answers import answer
from treadle_server.api.call import Call
from treadle_server.api.ranges import disposition, is_known, span_of
from treadle_server.artifacts.coming import ComingPieces
from treadle_server.artifacts.upload import Upload, check_digest
from treadle_server.domain.artifacts import Artifact, check_uploadable
from treadle_server.domain.instants import instant
from treadle_server.engine.commands import AnnounceArtifact, StoreArtifact
from treadle_server.engine.commands.artifacts import ABANDONED
from treadle_server.errors import ArtifactNotFound, PayloadTooLarge, Refused, StoreUnavailable, ValidationFailed
from treadle_server.operations.encode import artifact_data, page_data
from treadle_server.operations.reading import read_task
from treadle_server.store.read import artifacts as read_artifacts
from treadle_server.store.read.artifacts import Announced

log = logging.getLogger(__name__)

UPLOAD_SECONDS = 3600
"""How long an upload URL is valid; an upload that has begun may take longer."""

FETCH_SECONDS = 900
"""How long the URL is valid from which the store serves an object."""


async def announce(call: Call) -> Response:
    """Announce an upload: 201 with the URL to PUT it to, or 200 if it was announced before."""
    wanted = _wanted(call)
    command = AnnounceArtifact(
        principal=call.principal,
        task_id=call.task_id,
        wanted=wanted,
        is_expiry_named=call.body.expires_at is not None,
    )
    kept = await call.ctx.engine.run(command)
    return answer(await _upload_data(call, kept), 201 if kept.id == wanted.id else 200)


def _wanted(call: Call) -> Artifact:
    given: ArtifactCreate = call.body
    settings, now = call.ctx.settings, call.ctx.now()
    if given.content_length > settings.artifacts_max_bytes:
        most = settings.artifacts_max_bytes
        raise PayloadTooLarge(f"an artifact of {given.content_length} bytes is too large: this server takes {most}")
    expires_at = instant(given.expires_at, "expires_at")
    if expires_at is not None and expires_at <= now:
        raise ValidationFailed(f"expires_at: {expires_at.isoformat()} is in the past")
    if expires_at is None and settings.artifacts_expire_seconds is not None:
        expires_at = now + timedelta(seconds=settings.artifacts_expire_seconds)
    artifact_id = str(uuid7())
    return Artifact(
        id=artifact_id,
        task_seq=-1,
        run_id=call.run_id,
        name=given.name,
        content_type=given.content_type,
        size=given.content_length,
        sha256=None if given.sha256 is None else bytes.fromhex(given.sha256),
        location=call.ctx.artifacts.objects.staging(artifact_id),
        state="uploading",
        created_at=now,
        expires_at=expires_at,
    )


async def _upload_data(call: Call, artifact: Artifact) -> dict[str, Any]:
    data: dict[str, Any] = {
        "name": artifact.name,
        "run_id": artifact.run_id,
        "content_type": artifact.content_type,
        "content_length": artifact.size,
        "sha256": None if artifact.sha256 is None else artifact.sha256.hex(),
        "expires_at": artifact.expires_at,
        "stored": artifact_data(artifact) if artifact.is_stored else None,
        "put_url": None,
        "headers": {},
        "finish_url": None,
        "expires": None,
    }
    if artifact.is_stored:
        return data
    objects, expires = call.ctx.artifacts.objects, call.ctx.now() + timedelta(seconds=UPLOAD_SECONDS)
    if objects.presigns:
        put_url = await objects.url("PUT", artifact.location, UPLOAD_SECONDS)
    else:
        put_url = _own_url(call, "PUT", artifact, expires)
    # An upload that has begun may outlast its URL; it is finished after its last byte.
    finish_url = _own_url(call, "POST", artifact, call.ctx.now() + ABANDONED) if objects.presigns else None
    headers = {"Content-Type": artifact.content_type}
    return {**data, "put_url": put_url, "headers": headers, "finish_url": finish_url, "expires": expires}


def _own_url(call: Call, method: str, artifact: Artifact, expires_at: datetime) -> str:
    expires = int(expires_at.timestamp())
    signature = call.ctx.artifacts.signer.sign(method, artifact, expires)
    base = call.ctx.settings.public_url or str(call.request.base_url).rstrip("/")
    return f"{base}/v1/uploads/{artifact.id}?expires={expires}&signature={signature}"


# Uploads, by signed URL


async def put(call: Call) -> Response:
    """Upload the bytes of an announced artifact, which becomes visible once all of them are written."""
    announced = await _announced(call, "PUT")
    artifact = announced.artifact
    _check_headers(call, artifact)
    upload = Upload(artifact, call.request.stream())
    if artifact.is_stored:
        # The answer to the first upload was lost. Sending the same bytes again changes nothing; others are refused.
        again = ComingPieces(upload.chunks())
        while await again.next() is not None:
            pass
        return answer(artifact_data(artifact))
    check_uploadable(announced.task, announced.run, artifact.run_id, call.ctx.now())
    objects = call.ctx.artifacts.objects
    location = objects.fresh(artifact.id)
    await objects.put(location, upload.chunks())
    return answer(artifact_data(await _keep(call, announced, location, upload.sha256)), 201)


async def finish(call: Call) -> Response:
    """Finish an upload that went to the store itself: the object is copied, read through and compared.

    The copy is at a place for which no URL was signed. Raises `ValidationFailed` if nothing was uploaded, or something
    other than what was announced.
    """
    announced = await _announced(call, "POST")
    artifact, objects = announced.artifact, call.ctx.artifacts.objects
    if artifact.is_stored:
        return answer(artifact_data(artifact))
    check_uploadable(announced.task, announced.run, artifact.run_id, call.ctx.now())
    location = objects.fresh(artifact.id)
    staged = objects.staging(artifact.id)
    try:
        _check_size(artifact, await objects.size_of(staged))
        await objects.copy(staged, location)
        found = await _check_copy(call, artifact, location)
    except FileNotFoundError:
        raise ValidationFailed(f"nothing was uploaded yet for {artifact.name!r}: put it to its put_url first") from None
    stored = await _keep(call, announced, location, found)
    await objects.remove([staged])
    return answer(artifact_data(stored), 201)


async def _check_copy(call: Call, artifact: Artifact, location: str) -> bytes:
    """Return the digest of the copy. If it is not as announced, remove it and raise `ValidationFailed`."""
    objects = call.ctx.artifacts.objects
    found = await objects.read(location)
    try:
        _check_size(artifact, found.size)
        _check_type(artifact, found.content_type)
        check_digest(artifact, found.sha256)
    except ValidationFailed:
        await objects.remove([location])
        raise
    return found.sha256


def _check_size(artifact: Artifact, size: int) -> None:
    if size != artifact.size:
        raise ValidationFailed(f"the object has {size} bytes, not the announced {artifact.size}: put it again")


def _check_type(artifact: Artifact, content_type: str | None) -> None:
    if content_type not in {None, artifact.content_type}:
        raise ValidationFailed(
            f"the object was put as {content_type!r}, not as the announced {artifact.content_type!r}: put it again"
        )


async def _announced(call: Call, method: str) -> Announced:
    """Return the upload that the signed URL names. Raises `ArtifactNotFound` or `Forbidden`."""
    artifact_id = call.path("upload_id")
    found = None
    if is_uuid(artifact_id):
        async with call.ctx.engine.store.read() as connection:
            found = await read_artifacts.announced(connection, artifact_id)
    if found is None:
        raise ArtifactNotFound("no such upload is expected; announce it again")
    query = call.request.query_params
    expires, signature = query.get("expires", ""), query.get("signature", "")
    call.ctx.artifacts.signer.check(method, found.artifact, expires, signature, call.ctx.now())
    # The URL was given to a client with a token. Its upload may take an hour, and must not lose its connection to a
    # crowd of clients without tokens.
    trust(call.request.scope)
    return found


def _check_headers(call: Call, artifact: Artifact) -> None:
    headers = call.request.headers
    if (given := headers.get("content-type", "").strip()) != artifact.content_type:
        raise ValidationFailed(f"Content-Type: {given[:255]!r} is not the announced {artifact.content_type!r}")
    length = headers.get("content-length")
    if length is not None and length != str(artifact.size):
        raise ValidationFailed(f"Content-Length: {length[:40]} is not the announced {artifact.size}")


async def _keep(call: Call, announced: Announced, location: str, sha256: bytes) -> Artifact:
    """Make an object visible; remove it if it is refused or was stored before."""
    objects = call.ctx.artifacts.objects
    command = StoreArtifact(task_id=announced.task.id, artifact=announced.artifact, location=location, sha256=sha256)
    try:
        stored = await call.ctx.engine.run(command)
    except Refused:
        # After any other failure we don't know whether the row was written: the sweeper finds out.
        await objects.remove([location])
        raise
    if stored.location != location:
        await objects.remove([location])
    return stored


# What is stored


async def list_of_task(call: Call) -> Response:
    """List the task's artifacts, the last run's first; `run` limits the list to one run."""
    limit, offset = call.limit(), call.offset()
    task = await read_task(call.ctx, call.task_id)
    async with call.ctx.engine.store.read() as connection:
        items, total = await read_artifacts.page(
            connection, task.seq, run_id=call.number("run"), now=call.ctx.now(), limit=limit, offset=offset
        )
    return answer(page_data([artifact_data(item) for item in items], total, limit, offset))


async def get(call: Call) -> Response:
    """Fetch an artifact of the last run that has it, or of `run`: its bytes, or 303 to the store's URL.

    Raises `TaskNotFound`, `RangeNotSatisfiable`, and `ArtifactNotFound` if no run has an artifact of this name.
    """
    task = await read_task(call.ctx, call.task_id)
    name = call.path("name")
    async with call.ctx.engine.store.read() as connection:
        found = await read_artifacts.find(connection, task.seq, name, run_id=call.number("run"), now=call.ctx.now())
    if found is None:
        raise ArtifactNotFound(f"task {task.id} has no artifact {name[:255]!r}")
    etag = _etag(found)
    if is_known(call.request.headers, etag):
        return Response(status_code=304, headers=_kept(etag))
    objects = call.ctx.artifacts.objects
    if objects.presigns:
        # The signature covers the method too.
        method: Literal["HEAD", "GET"] = "HEAD" if call.request.method == "HEAD" else "GET"
        url = await objects.url(method, found.location, FETCH_SECONDS)
        return RedirectResponse(url, 303, {"Cache-Control": "no-store", "ETag": etag})
    return await _streamed(call, found, etag)


def _etag(artifact: Artifact) -> str:
    assert artifact.sha256 is not None
    return f'"{artifact.sha256.hex()}"'


async def _streamed(call: Call, artifact: Artifact, etag: str) -> Response:
    span = span_of(call.request.method, call.request.headers, artifact.size, etag)
    headers = _guarded(artifact) | _kept(etag) | span.headers
    if call.request.method == "HEAD":
        return Response(status_code=span.status, headers=headers)
    try:
        pieces = await call.ctx.artifacts.objects.get(artifact.location, start=span.start, end=span.end)
    except FileNotFoundError:
        is_own = not call.ctx.settings.artifacts and call.ctx.engine.store.is_shared
        elsewhere = "; or another server has it: all servers need the same TREADLE_ARTIFACTS" if is_own else ""
        lost = f"the object of artifact {artifact.name!r} is missing from the store, or truncated{elsewhere}"
        log.warning("%s: %s", artifact.location, lost)
        raise ArtifactNotFound(lost) from None
    return _Streamed(pieces, span.status, headers)


class _Streamed(StreamingResponse):
    """An answer that cuts the connection if the store fails halfway, so that the client knows it is incomplete."""

    async def stream_response(self, send: Send) -> None:
        with suppress(StoreUnavailable):  # the failure is in the log already
            await super().stream_response(send)


def _kept(etag: str) -> dict[str, str]:
    """Return headers that let clients cache a body but revalidate it before each use: their token may end."""
    return {"Cache-Control": "private, no-cache", "ETag": etag}


def _guarded(artifact: Artifact) -> dict[str, str]:
    """Return headers that keep browsers from running an artifact as a page of the server's own origin."""
    return {
        "Content-Type": artifact.content_type,
        "Content-Disposition": disposition(artifact.name),
        "Content-Security-Policy": "sandbox; default-src 'none'",
        "X-Content-Type-Options": "nosniff",
        "Accept-Ranges": "bytes",
    }
