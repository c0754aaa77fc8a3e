"""Seals and opens single values and texts by a codec, in the form of `treadle.wire.sealed`."""

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
"""Bytes of a digest: 64 characters."""


class Sealer:
    """Seals what goes to the server and opens what comes from it; without a codec it only tells what is sealed.

    `of` says what a value belongs to, a task's id for instance: equal values of two tasks then have different digests,
    and the server can't tell that they are equal. Without it there is no digest. Raises `InvalidSetting` for what is no
    codec, a key for instance.
    """

    def __init__(self, codec: "Codec | None") -> None:
        if codec is not None and not all(callable(getattr(codec, name, None)) for name in _METHODS):
            from treadle.settings import InvalidSetting

            raise InvalidSetting(f"codec is to be a codec, as FernetCodec(keys) is, not a {type(codec).__name__}")
        self.codec = codec

    @property
    def has_codec(self) -> bool:
        """Whether it can seal, and open what its keys fit."""
        return self.codec is not None

    def value(self, value: Any, of: str | None = None) -> dict[str, Any]:
        """Return a JSON value sealed, with digests of it where `of` says what it belongs to. Raises `NoCodec`."""
        return sealed_value(self._seal(value, of))

    def text(
        self, text: str, of: str | None = None, *, error_class: str | None = None, most: int = LONGEST_OUTPUT
    ) -> str:
        """Return a text sealed, in `most` characters: as much of it is left out of the middle. Raises `NoCodec`.

        What the worker says of its own keys stays as it is: it is for those who have none.
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
        """Return the present key's digest of data, in at most 64 characters. Raises `NoCodec`."""
        return _digest_text(self._codec().digests(data)[0])

    def open_value(self, value: Any) -> Any:
        """Return what was sealed; anything else as it is. Raises `NoCodec` and `CantDecrypt`."""
        seal = seal_of(value)
        return value if seal is None else self._open(seal)

    def open_sealed(self, value: Any) -> Any:
        """Return a value of an encrypted task, which is sealed or null. Raises `NoCodec` and `CantDecrypt`."""
        if value is not None and seal_of(value) is None:
            raise CantDecrypt("a value of an encrypted task is not encrypted: the server has changed it")
        return self.open_value(value)

    def open_text(self, text: str) -> str:
        """Return the text that was sealed; any other as it is. Raises `NoCodec` and `CantDecrypt`."""
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
            # A codec may raise whatever it likes.
            why = f"({type(error).__name__}): none of the keys that are here fits, or it was changed"
            raise CantDecrypt(f"it can't be decrypted {why}") from error

    def _codec(self) -> "Codec":
        if self.codec is None:
            raise NoCodec(
                "this is encrypted, and no keys are here: give codec=…, or set TREADLE_ENCRYPTION_KEYS"
                " (docs/guides/encryption.md)"
            )
        return self.codec


def _digest_text(digest: bytes) -> str:
    return urlsafe_b64encode(digest[:_LONGEST_DIGEST]).decode().rstrip("=")
