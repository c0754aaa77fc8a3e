"""Downloads are compared with what was stored, whatever a proxy has made of the tag that says so."""

from hashlib import sha256
from pathlib import Path

import httpx
import pytest

from treadle.client.downloads import download
from treadle.errors import ProtocolMismatch
from treadle.transport.http import HttpChannel

pytestmark = pytest.mark.anyio

DIGEST = sha256(b"hello").hexdigest()


@pytest.mark.parametrize("tag", [f'"{DIGEST}"', f'W/"{DIGEST}"'])
async def test_a_download_is_compared_by_a_tag_that_a_proxy_has_made_a_weak_one(tag: str, tmp_path: Path) -> None:
    body = b"hello"
    network = httpx.MockTransport(lambda _: httpx.Response(200, content=body, headers={"ETag": tag}))
    channel = HttpChannel(("http://server.invalid",), None, transport=network)

    saved = await download(channel, "/v1/artifact", tmp_path / "saved")
    body = b"HELLO"
    with pytest.raises(ProtocolMismatch, match="was stored"):
        await download(channel, "/v1/artifact", tmp_path / "other")
    await channel.close()

    assert saved.read_bytes() == b"hello"
