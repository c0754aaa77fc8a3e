"""The codec that is built in: Fernet keys of the library `cryptography`, which rotate."""

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

    A key is 32 bytes in URL-safe base64, as `new_key()` makes them. Rotate: put the new key behind the others
    everywhere, then before them, and drop the old one when nothing that it encrypted is needed any more.

    Raises `InvalidSetting` for no key, for what is none (it says which, and shows none), and without `cryptography`.
    """

    def __init__(self, keys: str | bytes | Iterable[str | bytes]) -> None:
        fernet = _fernet()
        if not isinstance(keys, Iterable):
            raise _invalid(f"encryption keys are a text, bytes or several of them, not {type(keys).__name__}")
        given = [keys] if isinstance(keys, str | bytes) else list(keys)
        whole, made = [], []
        for number, key in enumerate(given, start=1):
            try:
                whole.append(_whole(key))
                made.append(fernet.Fernet(whole[-1]))
            except (ValueError, TypeError):
                raise _invalid(
                    f"encryption key {number} of {len(given)} is none: a key is 32 bytes in URL-safe base64, as"
                    " treadle.encryption.new_key() makes them"
                ) from None
        if not made:
            raise _invalid("no encryption key is given: treadle.encryption.new_key() makes one")
        self._fernet = fernet.MultiFernet(made)
        # Keys of their own for the digests: no key serves two ends.
        self._digest_keys = [hmac.digest(urlsafe_b64decode(key), _PURPOSE, "sha256") for key in whole]

    def __repr__(self) -> str:
        return f"<FernetCodec of {len(self._digest_keys)} keys>"

    def encode(self, data: bytes) -> bytes:
        """Return the data encrypted with the first key."""
        return urlsafe_b64decode(self._fernet.encrypt(data))

    def decode(self, data: bytes) -> bytes:
        """Return what was encrypted with one of the keys; raises `cryptography.fernet.InvalidToken`."""
        decrypted: bytes = self._fernet.decrypt(urlsafe_b64encode(data))
        return decrypted

    def digests(self, data: bytes) -> list[bytes]:
        """Return the data's digest under each key, the first eight."""
        return [hmac.digest(key, data, "sha256")[:_DIGEST_BYTES] for key in self._digest_keys[:8]]


def _whole(key: str | bytes) -> bytes:
    """Return a key in URL-safe base64, given in either alphabet. Raises `ValueError` for what has other characters too.

    Base64 is read past them: of two keys with a semicolon between the second would be lost without a word.
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
        raise _invalid("encryption needs the library cryptography: pip install 'treadle[encryption]'") from None
    return fernet


def _invalid(message: str) -> "InvalidSetting":
    # Loaded when it is wanted: pydantic-settings takes longer than all of this.
    from treadle.settings import InvalidSetting

    return InvalidSetting(message)
