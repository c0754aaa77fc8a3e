"""The protocol of codecs, which encrypt; it is small, so that keys may come from anywhere."""

from collections.abc import Sequence
from typing import Protocol


class Codec(Protocol):
    """Encrypts and decrypts the values of tasks; give it to `Client(codec=…)` and `Worker(codec=…)`.

    It is called in the event loop and from threads, and must not block: fetch keys beforehand. `FernetCodec` is one;
    another may compress before it encrypts, or get its data keys from a key service. A class with these methods is a
    codec; the protocol itself can't be instantiated (`TypeError`).
    """

    def encode(self, data: bytes) -> bytes:
        """Return the data, encrypted with the present key."""

    def decode(self, data: bytes) -> bytes:
        """Return the data, decrypted with whichever key fits. Raises any `Exception` when no key does."""

    def digests(self, data: bytes) -> Sequence[bytes]:
        """Return keyed digests of the data, the present key's first, then those of earlier keys.

        The server compares them: a repeated submit has one in common with the first, whichever key was the present one
        then. At least one, at most eight, of 16 to 48 bytes each.
        """
