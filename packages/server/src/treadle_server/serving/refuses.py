"""Says to who sends no request why it is none: as a problem, like everything that the application refuses."""

from http import HTTPStatus
from typing import Any, Literal

import orjson
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from treadle_server.api.problems import MEDIA_TYPE
from treadle_server.serving.unread import EndsUnread


class Refuses(EndsUnread):
    """An HTTP connection that ends with what is wrong; there is no request whose application could say it."""

    cycle: RequestResponseCycle

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._phase: Literal["idle", "head", "body"] = "idle"
        """Of the request that is read."""
        self._begun: RequestResponseCycle | None = None
        """The request that is being answered: others may have been parsed behind it."""

    def refuse_request(self, status: HTTPStatus, why: str) -> None:
        """Say what is wrong with the request that is read, unless that would be taken for another one's answer."""
        if self._phase == "body":
            is_answering = self._begun is not self.cycle or self.cycle.response_started
        else:
            is_answering = self._begun is not None and not self._begun.response_complete
        if is_answering:
            self.transport.abort()
        else:
            self.refuse(status, why)

    def refuse(self, status: HTTPStatus, why: str, more: str = "") -> None:
        """Say why, and close the connection; `more` are further lines of the header."""
        body = orjson.dumps({"type": "about:blank", "title": status.phrase, "status": status, "detail": why})
        head = f"HTTP/1.1 {status} {status.phrase}\r\ncontent-type: {MEDIA_TYPE}\r\n{more}connection: close\r\n"
        self.transport.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        self.transport.close()
        self.expect_reading(is_expected=True)
