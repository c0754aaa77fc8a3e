"""The codec from the settings: keys in the environment, or in a file that it names."""

from typing import TYPE_CHECKING

from treadle.encryption.fernet import FernetCodec

if TYPE_CHECKING:
    from treadle.encryption.codec import Codec
    from treadle.settings import Settings


def codec_of(settings: "Settings") -> "Codec | None":
    """Return a codec with the keys of `TREADLE_ENCRYPTION_KEYS` or `TREADLE_ENCRYPTION_KEYS_FILE`; None without any.

    Raises `InvalidSetting` for an invalid key, for a file that can't be read, and without `cryptography`.
    """
    from treadle.settings import InvalidSetting

    if settings.encryption_keys is not None:
        variable, text = "TREADLE_ENCRYPTION_KEYS", settings.encryption_keys.get_secret_value()
    elif settings.encryption_keys_file is not None:
        variable, path = "TREADLE_ENCRYPTION_KEYS_FILE", settings.encryption_keys_file
        try:
            text = path.read_text()
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise InvalidSetting(f"{variable}: {path} can't be read ({reason})") from None
    else:
        return None
    lines = (line.partition("#")[0] for line in text.splitlines())
    keys = [key for line in lines for key in line.replace(",", " ").split()]
    try:
        return FernetCodec(keys)
    except InvalidSetting as error:
        raise InvalidSetting(f"{variable}: {error}") from None
