"""The certificate of a server that speaks TLS: checked before the server starts, and read again when it is renewed."""

import logging
import ssl
from pathlib import Path

from treadle_server.settings import Settings

log = logging.getLogger(__name__)

_Stamp = tuple[int, int, int]


class NoCertificate(OSError):
    """The certificate or its key can't be read, or they do not belong together."""


def check_certificate(settings: Settings) -> None:
    """Raise `NoCertificate`, with what to do, if the settings name a certificate that can't be used."""
    if settings.tls_cert is not None:
        _load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), settings.tls_cert, settings.tls_key)


def _load(context: ssl.SSLContext, cert: Path, key: Path | None) -> None:
    try:
        # No prompt: a server that the system starts would wait for ever for a password.
        context.load_cert_chain(cert, key, password=lambda: "")
    except (OSError, ValueError) as error:
        if key is None:
            said = f"{cert}: {error}. It must be a PEM file that holds the key too, unless tls_key names the key's file"
        else:
            said = f"{cert} with {key}: {error}. Both must be PEM files, of a certificate and its own key"
        raise NoCertificate(f"can't use the certificate {said}; the key without a password.") from None


class Renewals:
    """Has the server use a renewed certificate without a restart.

    Certificates are valid for weeks, and servers run for months.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._seen = self._stamps()

    def look(self, context: ssl.SSLContext) -> None:
        """Use the certificate in the files for new connections, if the files have changed.

        If it can't be used, for example because its key has not been written yet, log that, keep the previous one, and
        try again when the files change again.
        """
        if (stamps := self._stamps()) == self._seen:
            return
        self._seen, cert = stamps, self._settings.tls_cert
        assert cert is not None
        try:
            # First into another context: a failed load may leave half of it in the one that is in use.
            check_certificate(self._settings)
            _load(context, cert, self._settings.tls_key)
        except NoCertificate as error:
            log.warning("%s The previous certificate stays in use until this is fixed.", error)
        else:
            log.info("the certificate %s has changed, and is used from now on", cert)

    def _stamps(self) -> list[_Stamp | None]:
        return [_stamp(path) for path in (self._settings.tls_cert, self._settings.tls_key) if path is not None]


def _stamp(path: Path) -> _Stamp | None:
    """Return a value that changes with the file's content; None if there is no file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
