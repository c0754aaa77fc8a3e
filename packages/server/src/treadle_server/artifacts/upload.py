"""A client's upload on its way to the store: counted, hashed, and gathered into larger pieces."""

import hashlib
from collections.abc import AsyncIterator

from treadle_server.artifacts.objects import CHUNK
from treadle_server.domain.artifacts import Artifact
from treadle_server.errors import ArtifactConflict, ValidationFailed


class Upload:
    """One upload, of which no more than a chunk is held in memory."""

    def __init__(self, artifact: Artifact, stream: AsyncIterator[bytes]) -> None:
        self._artifact = artifact
        self._stream = stream
        self._digest = hashlib.sha256()
        self._size = 0

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the upload in chunks; before the last one, raise if the upload is not as announced.

        Raises `ValidationFailed`, or `ArtifactConflict` if the artifact is already stored with other bytes.
        """
        gathered = bytearray()
        async for part in self._stream:
            self._digest.update(part)
            self._size += len(part)
            if self._size > self._artifact.size:
                raise ValidationFailed(f"the body is longer than the announced {self._artifact.size} bytes")
            gathered += part
            if len(gathered) >= CHUNK:
                yield bytes(gathered)
                gathered.clear()
        if self._size != self._artifact.size:
            raise ValidationFailed(
                f"the body has {self._size} bytes, not the announced {self._artifact.size}: put it again"
            )
        check_digest(self._artifact, self.sha256)
        yield bytes(gathered)

    @property
    def sha256(self) -> bytes:
        """Return the digest of the bytes received so far."""
        return self._digest.digest()


def check_digest(artifact: Artifact, found: bytes) -> None:
    """Raise `ValidationFailed` when another digest was announced, `ArtifactConflict` when other bytes are stored."""
    if artifact.sha256 is None or artifact.sha256 == found:
        return
    if artifact.is_stored:
        raise ArtifactConflict(f"artifact {artifact.name!r} is already stored with different content")
    raise ValidationFailed(
        f"the bytes have the sha256 {found.hex()} instead of the announced {artifact.sha256.hex()}: upload them again"
    )
