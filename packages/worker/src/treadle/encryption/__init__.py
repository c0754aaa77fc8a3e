"""Encrypted tasks: keys that the server never sees, and what they encrypt (docs/guides/encryption.md)."""

from treadle.encryption.codec import Codec
from treadle.encryption.fernet import FernetCodec, new_key
from treadle.encryption.sealer import Sealer

__all__ = ["Codec", "FernetCodec", "Sealer", "new_key"]
