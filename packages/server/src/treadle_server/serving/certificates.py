"""The certificate of a server that speaks TLS: looked at before it starts, and read anew when it was renewed."""

import logging
import ssl
from pathlib import Path

from treadle_server.settings import Settings

log = logging.getLogger(__name__)

_Stamp = tuple[int, int, int]


class NoCertificate(OSError):
    """The certificate or its key can't be read, or do not belong together."""


def check_certificate(settings: Settings) -> None:
    """Raise `NoCertificate`, with what to do, when the certificate that the settings name is of no use."""
    if settings.tls_cert is not None:
        _load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), settings.tls_cert, settings.tls_key)


def _load(context: ssl.SSLContext, cert: Path, key: Path | None) -> None:
    try:
        # No prompt: a server that is started by the system would wait for a password for ever.
        context.load_cert_chain(cert, key, password=lambda: "")
    except (OSError, ValueError) as error:
        files = f"{cert}" if key is None else f"{cert} with {key}"
        raise NoCertificate(
            f"can't use the certificate {files}: {error}. Both are PEM files, the key without a password."
        ) from None


class Renewals:
    """Has the server show the certificate that stands in its files: who renews it has nobody to tell.

    Certificates hold for weeks, and servers run for months.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._seen = self._stamps()

    def look(self, context: ssl.SSLContext) -> None:
        """Have connections that come be shown what is in the files, when that has changed.

        What is of no use, such as a certificate whose key is still to be written, is told of, and looked at again when
        the files change again; what was shown before is shown on.
        """
        if (stamps := self._stamps()) == self._seen:
            return
        self._seen, cert = stamps, self._settings.tls_cert
        assert cert is not None
        try:
            # Into a context of its own first: the one that is used would keep the half that fits.
            check_certificate(self._settings)
            _load(context, cert, self._settings.tls_key)
        except NoCertificate as error:
            log.warning("%s What it was before is shown until that is mended.", error)
        else:
            log.info("the certificate %s has changed, and is shown from now on", cert)

    def _stamps(self) -> list[_Stamp | None]:
        return [_stamp(path) for path in (self._settings.tls_cert, self._settings.tls_key) if path is not None]


def _stamp(path: Path) -> _Stamp | None:
    """Return what is another one for other bytes in the file; None for one that is not there."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
