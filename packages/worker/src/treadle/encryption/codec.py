"""What encrypts: a small protocol, so that keys may come from wherever they are kept."""

from collections.abc import Sequence
from typing import Protocol


class Codec(Protocol):
    """Encrypts what tasks carry, and decrypts it; give it to `Client(codec=…)` and `Worker(codec=…)`.

    It is called in the event loop and from threads, and must not block: fetch keys before. `FernetCodec` is one;
    another may compress before it encrypts, or have its data keys from a key service. It is a protocol, of which there
    are no instances (`TypeError`): a class with these methods is one.
    """

    def encode(self, data: bytes) -> bytes:
        """Return the data encrypted, with the present key."""

    def decode(self, data: bytes) -> bytes:
        """Return what was encrypted, with whichever key. Raises any `Exception` when no key opens it."""

    def digests(self, data: bytes) -> Sequence[bytes]:
        """Return keyed digests of the data, the present key's first, then those of keys that were in use before.

        The server compares them: a submit that is repeated has one in common with the first, whichever of the keys was
        the present one then. At least one, at most eight, of 16 to 48 bytes each.
        """
