"""Answers what is not a valid request with a problem, as the application does for everything that it refuses."""

import logging
from http import HTTPStatus
from typing import Any, Literal

import orjson
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle
from websockets.http11 import MAX_NUM_HEADERS

from treadle_server.api.problems import MEDIA_TYPE
from treadle_server.serving.slow_readers import EndsSlowReaders

log = logging.getLogger(__name__)


class Refuses(EndsSlowReaders):
    """An HTTP connection that answers errors itself when there is no request for the application to answer."""

    cycle: RequestResponseCycle
    headers: list[tuple[bytes, bytes]]
    address: str

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._phase: Literal["idle", "head", "body"] = "idle"
        """The phase of the request that is being read."""
        self._begun: RequestResponseCycle | None = None
        """The request that is being answered; later ones may have been parsed already."""

    def refuse_request(self, status: HTTPStatus, why: str) -> None:
        """Refuse the request that is being read; if that would look like another one's answer, abort the connection."""
        log.warning("refused what %s sent: %s", self.address, why)
        if self._phase == "body":
            is_answering = self._begun is not self.cycle or self.cycle.response_started
        else:
            is_answering = self._begun is not None and not self._begun.response_complete
        if is_answering:
            self.transport.abort()
        else:
            self.refuse(status, why)

    def refuse_websocket(self) -> bool:
        """Refuse a request for a websocket that `websockets` can't parse, and return True; nothing would answer it."""
        given = self.headers
        if any(name == b"transfer-encoding" or (name == b"content-length" and value != b"0") for name, value in given):
            self.refuse_request(HTTPStatus.BAD_REQUEST, "a request for a websocket must have no body")
            return True
        if len(given) > MAX_NUM_HEADERS:
            why = f"a request for a websocket may have {MAX_NUM_HEADERS} headers at most"
            self.refuse_request(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, why)
            return True
        return False

    def refuse(self, status: HTTPStatus, why: str, more: str = "") -> None:
        """Answer with the problem, and close the connection; `more` are further header lines."""
        body = orjson.dumps({"type": "about:blank", "title": status.phrase, "status": status, "detail": why})
        head = f"HTTP/1.1 {status} {status.phrase}\r\ncontent-type: {MEDIA_TYPE}\r\n{more}connection: close\r\n"
        self.transport.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        self.transport.close()
        self.expect_reading(is_expected=True)
