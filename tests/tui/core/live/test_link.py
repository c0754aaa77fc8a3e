"""What the feed is told by a link to a real server."""

from types import SimpleNamespace

import pytest

from treadle.errors import ConnectionFailed, ProtocolMismatch, TreadleError, error_for, problem_named
from treadle.transport.bearer import Bearer
from treadle_tui.core.live.link import SessionLink


@pytest.mark.parametrize(
    "ended", [error_for(problem_named("unauthorized", "the token was revoked")), ProtocolMismatch("it speaks 9")]
)
async def test_7_a_request_that_is_under_way_when_the_session_is_refused_fails_as_one_without_a_connection(
    ended: TreadleError,
) -> None:
    link = SessionLink(("http://127.0.0.1:1",), Bearer(everywhere=lambda: "tdl_x"))

    async def call(*_: object, **__: object) -> dict[str, object]:
        raise ended

    link._session = SimpleNamespace(is_connected=True, call=call)  # type: ignore[assignment]

    with pytest.raises(ConnectionFailed, match=str(ended)[-9:]):
        await link.request("ping")
