"""The built-in codec: Fernet keys of the library `cryptography`, with rotation."""

import hmac
from base64 import b64decode, urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

    from treadle.settings import InvalidSetting

_PURPOSE = b"treadle: digests of plain text, 1"
_DIGEST_BYTES = 16


class FernetCodec:
    """Encrypts with the first of its keys, and decrypts with whichever fits (AES-128-CBC with HMAC-SHA256).

    A key is 32 bytes in URL-safe base64, as `new_key()` makes them. To rotate, add the new key after the others
    everywhere, then move it to the front, and drop the old one when nothing that it encrypted is needed any more.

    Raises `InvalidSetting` without any key, for an invalid one (saying which, without showing it), and without
    `cryptography`.
    """

    def __init__(self, keys: str | bytes | Iterable[str | bytes]) -> None:
        fernet = _fernet()
        if not isinstance(keys, Iterable):
            raise _invalid(f"encryption keys must be a str, bytes or a list of them, not {type(keys).__name__}")
        given = [keys] if isinstance(keys, str | bytes) else list(keys)
        whole, made = [], []
        for number, key in enumerate(given, start=1):
            try:
                whole.append(_whole(key))
                made.append(fernet.Fernet(whole[-1]))
            except (ValueError, TypeError):
                raise _invalid(
                    f"encryption key {number} of {len(given)} is invalid: a key is 32 bytes in URL-safe base64, as"
                    " treadle.encryption.new_key() makes them"
                ) from None
        if not made:
            raise _invalid("no encryption key was given: create one with treadle.encryption.new_key()")
        self._fernet = fernet.MultiFernet(made)
        # Separate keys for the digests, so that no key serves two purposes.
        self._digest_keys = [hmac.digest(urlsafe_b64decode(key), _PURPOSE, "sha256") for key in whole]

    def __repr__(self) -> str:
        return f"<FernetCodec of {len(self._digest_keys)} keys>"

    def encode(self, data: bytes) -> bytes:
        """Return the data encrypted with the first key."""
        return urlsafe_b64decode(self._fernet.encrypt(data))

    def decode(self, data: bytes) -> bytes:
        """Return the data decrypted with the key that fits; raises `cryptography.fernet.InvalidToken`."""
        decrypted: bytes = self._fernet.decrypt(urlsafe_b64encode(data))
        return decrypted

    def digests(self, data: bytes) -> list[bytes]:
        """Return the data's digest under each key, at most eight."""
        return [hmac.digest(key, data, "sha256")[:_DIGEST_BYTES] for key in self._digest_keys[:8]]


def _whole(key: str | bytes) -> bytes:
    """Return a key, given in either base64 alphabet, in the URL-safe one. Raises `ValueError` for other characters.

    Lenient base64 skips those: of two keys with a semicolon between, the second would be silently lost.
    """
    text = key.decode() if isinstance(key, bytes) else str(key)
    return urlsafe_b64encode(b64decode(text.strip().replace("-", "+").replace("_", "/"), validate=True))


def new_key() -> str:
    """Return a new key, 32 random bytes in URL-safe base64; raises `InvalidSetting` without `cryptography`."""
    key: bytes = _fernet().Fernet.generate_key()
    return key.decode()


def _fernet() -> "ModuleType":
    try:
        from cryptography import fernet
    except ImportError:
        raise _invalid("encryption needs cryptography: pip install 'treadle[encryption]'") from None
    return fernet


def _invalid(message: str) -> "InvalidSetting":
    # Imported on use, because pydantic-settings takes longer than all of this.
    from treadle.settings import InvalidSetting

    return InvalidSetting(message)
