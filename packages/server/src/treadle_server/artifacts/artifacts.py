"""What artifacts need besides the engine: the object store, and the key that signs URLs."""

from pathlib import Path

from treadle_server.artifacts.objects import Objects
from treadle_server.artifacts.signing import Signer, key_of
from treadle_server.store.store import SqlStore


class Artifacts:
    """One server's artifacts."""

    signer: Signer

    def __init__(self, url: str, directory: Path | None) -> None:
        self.objects = Objects(url, directory)

    async def prepare(self, store: SqlStore) -> None:
        """Read the database's key. Raises `StoreUnavailable`."""
        self.signer = Signer(await key_of(store))
        self.objects.site = self.signer.site
