"""The certificate of a server that speaks TLS: checked before the server starts, and read again when it is renewed."""

import logging
import math
import ssl
import time
from contextlib import suppress
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
        self._valid_until = 0.0
        """When the certificate in use expires; infinity once that was logged."""

    def look(self, context: ssl.SSLContext) -> None:
        """Use the certificate in the files for new connections, if the files have changed.

        If it can't be used, for example because its key has not been written yet, log that, keep the previous one, and
        try again when the files change again. If the one in use is expired or not yet valid, log that once.
        """
        if (stamps := self._stamps()) != self._seen:
            self._seen = stamps
            self._renew(context)
        if time.time() >= self._valid_until:
            self._check_dates(context)

    def _renew(self, context: ssl.SSLContext) -> None:
        cert = self._settings.tls_cert
        assert cert is not None
        try:
            # First into another context: a failed load may leave half of it in the one that is in use.
            check_certificate(self._settings)
            _load(context, cert, self._settings.tls_key)
        except NoCertificate as error:
            log.warning("%s The previous certificate stays in use until this is fixed.", error)
        else:
            log.info("the certificate %s has changed, and is used from now on", cert)
            self._valid_until = 0.0

    def _check_dates(self, context: ssl.SSLContext) -> None:
        self._valid_until = math.inf
        try:
            self._valid_until = _end_of(context)
        except ssl.SSLCertVerificationError as error:
            log.warning(
                "clients refuse the certificate %s (%s): renew it, or set this machine's clock",
                self._settings.tls_cert, error.verify_message,
            )  # fmt: skip

    def _stamps(self) -> list[_Stamp | None]:
        return [_stamp(path) for path in (self._settings.tls_cert, self._settings.tls_key) if path is not None]


def _end_of(context: ssl.SSLContext) -> float:
    """Return when the certificate in a server's context expires, in seconds since 1970.

    Python reads dates only from a certificate that it has verified, so a client is shown it and trusts it. Raises
    `SSLCertVerificationError` if it is expired or not yet valid.
    """
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    client.load_verify_locations(cadata=_shown(context, client).getpeercert(binary_form=True) or b"")
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    client.verify_mode = ssl.CERT_REQUIRED
    found = _shown(context, client).getpeercert() or {}
    return float(ssl.cert_time_to_seconds(str(found["notAfter"])))


def _shown(server: ssl.SSLContext, client: ssl.SSLContext) -> ssl.SSLObject:
    """Return the client's end of a connection within this process, once it has verified what the server's shows."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client.wrap_bio(to_client, to_server)
    theirs = server.wrap_bio(to_server, to_client, server_side=True)
    for end in (ours, theirs, ours):
        with suppress(ssl.SSLWantReadError):
            end.do_handshake()
    return ours


def _stamp(path: Path) -> _Stamp | None:
    """Return a value that changes with the file's content; None if there is no file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
