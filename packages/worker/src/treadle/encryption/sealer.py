"""Encryption and decryption of single values and texts by a codec, in the form of `treadle.wire.sealed`."""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import TYPE_CHECKING, Any

from treadle.errors import CantDecrypt, NoCodec
from treadle.wire.fields import LONGEST_OUTPUT
from treadle.wire.sealed import (
    MOST_DIGESTS,
    UNOPENED,
    UNSEALED,
    seal_of,
    seal_of_text,
    sealed_text,
    sealed_value,
)

if TYPE_CHECKING:
    from treadle.encryption.codec import Codec

_METHODS = ("encode", "decode", "digests")

_LONGEST_DIGEST = 48
"""The most bytes of a digest: 64 characters."""


class Sealer:
    """Encrypts what goes to the server and decrypts what comes from it; without a codec it only detects encryption.

    `of` says what a value belongs to, such as a task's id, so that equal values of two tasks have different digests and
    the server can't tell that they are equal. Without it there is no digest. Raises `InvalidSetting` for anything but a
    codec, such as a key.
    """

    def __init__(self, codec: "Codec | None") -> None:
        if codec is not None and not all(callable(getattr(codec, name, None)) for name in _METHODS):
            from treadle.settings import InvalidSetting

            raise InvalidSetting(f"codec must be a codec such as FernetCodec(keys), not a {type(codec).__name__}")
        self.codec = codec

    @property
    def has_codec(self) -> bool:
        """Whether it can encrypt, and decrypt what its keys fit."""
        return self.codec is not None

    def value(self, value: Any, of: str | None = None) -> dict[str, Any]:
        """Return a JSON value encrypted, with digests of it if `of` says what it belongs to. Raises `NoCodec`."""
        return sealed_value(self._seal(value, of))

    def text(
        self, text: str, of: str | None = None, *, error_class: str | None = None, most: int = LONGEST_OUTPUT
    ) -> str:
        """Return a text encrypted, in at most `most` characters: the middle of a longer text is cut. Raises `NoCodec`.

        The worker's own messages about its keys stay plain, because they are for people without the keys.
        """
        if text in {"", UNOPENED, UNSEALED}:
            return text
        sealed = sealed_text(self._seal(text, of), error_class)
        while len(sealed) > most and len(text) > 1:
            kept = len(text) * most // len(sealed) // 2 * 19 // 20
            text = f"{text[:kept]}…{text[len(text) - kept :]}"
            sealed = sealed_text(self._seal(text, of), error_class)
        return sealed

    def digest(self, data: bytes) -> str:
        """Return the present key's digest of the data, in at most 64 characters. Raises `NoCodec`."""
        return _digest_text(self._codec().digests(data)[0])

    def open_value(self, value: Any) -> Any:
        """Return an encrypted value decrypted; any other is returned unchanged. Raises `NoCodec` and `CantDecrypt`."""
        seal = seal_of(value)
        return value if seal is None else self._open(seal)

    def open_sealed(self, value: Any) -> Any:
        """Return a value of an encrypted task, which must be encrypted or null. Raises `NoCodec` and `CantDecrypt`."""
        if value is not None and seal_of(value) is None:
            raise CantDecrypt("a value of an encrypted task is not encrypted: the server has tampered with it")
        return self.open_value(value)

    def open_text(self, text: str) -> str:
        """Return an encrypted text decrypted; any other is returned unchanged. Raises `NoCodec` and `CantDecrypt`."""
        seal = seal_of_text(text)
        return text if seal is None else str(self._open(seal))

    def _seal(self, value: Any, of: str | None) -> str:
        codec = self._codec()
        data = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
        seal = urlsafe_b64encode(codec.encode(data)).decode()
        if of is None:
            return seal
        said = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False, sort_keys=True)
        digests = list(codec.digests(f"{of}\0{said}".encode()))[:MOST_DIGESTS]
        return f"{','.join(map(_digest_text, digests))}.{seal}"

    def _open(self, seal: str) -> Any:
        codec = self._codec()
        try:
            return json.loads(codec.decode(urlsafe_b64decode(seal.rpartition(".")[2])))
        except Exception as error:
            # A codec may raise anything.
            why = f"({type(error).__name__}): none of the keys here fits, or the data was changed"
            raise CantDecrypt(f"it can't be decrypted {why}") from error

    def _codec(self) -> "Codec":
        if self.codec is None:
            raise NoCodec(
                "this is encrypted, but there are no keys here: give codec=…, or set TREADLE_ENCRYPTION_KEYS"
                " (docs/guides/encryption.md)"
            )
        return self.codec


def _digest_text(digest: bytes) -> str:
    return urlsafe_b64encode(digest[:_LONGEST_DIGEST]).decode().rstrip("=")
