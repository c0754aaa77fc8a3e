"""Webhooks reach public addresses only, whatever a name says at the second look (E12)."""

import socket
import ssl
from collections.abc import Callable
from ipaddress import ip_address

import httpx
import pytest
import trustme

from tests.webhooks.conftest import LOOPBACK
from tests.webhooks.receiver import receiving
from treadle_server.webhooks.addresses import AddressRefused, may_reach, networks, resolve
from treadle_server.webhooks.names import Names
from treadle_server.webhooks.post import Post

pytestmark = pytest.mark.anyio

REFUSED = (
    "127.0.0.1", "127.9.9.9", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1",
    "224.0.0.1", "255.255.255.255", "240.0.0.1", "192.0.2.1", "198.18.0.1", "::", "::1", "fe80::1", "fc00::1",
    "ff02::1", "2001:db8::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "2002:7f00:1::", "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe", "2001:0:7f00:1::1", "::127.0.0.1", "::10.0.0.1", "::1.1.1.1", "::ffff:0:127.0.0.1",
    "64:ff9b:1::7f00:1", "2606:4700::5efe:10.0.0.1", "2606:4700::200:5efe:7f00:1", "fec0::1", "100::1", "4000::1",
    "192.0.0.192", "::ffff:192.0.0.192",
)  # fmt: skip


@pytest.mark.parametrize("address", REFUSED)
def test_an_address_that_is_not_public_is_refused_e12(address) -> None:
    assert not may_reach(ip_address(address), ())


@pytest.mark.parametrize(
    "address", ["1.1.1.1", "93.184.216.34", "2606:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101"]
)
def test_a_public_address_may_be_reached_e12(address) -> None:
    assert may_reach(ip_address(address), ())


def test_the_setting_admits_the_networks_that_it_names_and_no_others_e12() -> None:
    allowed = networks(["10.0.0.0/8", "fd00::/8"])

    admitted = [text for text in (*REFUSED, "fd12::1") if may_reach(ip_address(text), allowed)]

    assert admitted == ["10.1.2.3", "::ffff:10.0.0.1", "2606:4700::5efe:10.0.0.1", "fd12::1"]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "127.1"])
async def test_however_loopback_is_written_it_is_known_when_it_is_looked_up_e12(host) -> None:
    try:
        socket.getaddrinfo(host, 80)
    except OSError:
        spelling = "has no address"
    else:
        spelling = "has no public address"

    with pytest.raises(AddressRefused, match=spelling):
        await resolve(Names(), host, ())


class Resolver:
    """Answers each look at a name with the next of its addresses."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    def __call__(self, host: str) -> list[str]:
        self.asked.append(host)
        return self.answers.pop(0)


@pytest.fixture
def resolving(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Resolver]:
    """Have names lead to these addresses."""

    def resolve_by(*answers: list[str]) -> Resolver:
        resolver = Resolver(*answers)
        monkeypatch.setattr("treadle_server.webhooks.names._looked_up", resolver)
        return resolver

    return resolve_by


async def test_a_name_is_looked_up_once_and_what_was_checked_is_what_is_reached_e12(receiver, resolving) -> None:
    """The second answer, which would lead elsewhere, is never asked for: DNS rebinding is of no use."""
    names = resolving(["127.0.0.1"], ["127.0.0.2"])
    post = Post(timeout=5, allowed=networks(["127.0.0.1/32"]))

    answer = await post.send(f"http://hooks.example:{receiver.port}/a?b=c", b"{}", {"webhook-id": "1"})
    await post.close()

    assert (answer.status, answer.error) == (200, None)
    assert names.asked == ["hooks.example"]
    [got] = receiver.got
    assert (got.path, got.headers["host"]) == ("/a?b=c", f"hooks.example:{receiver.port}")


async def test_a_name_that_leads_to_a_private_address_is_not_connected_to_e12(receiver, resolving) -> None:
    resolving(["127.0.0.1", "10.0.0.1"])
    post = Post(timeout=5)

    answer = await post.send(f"http://hooks.example:{receiver.port}/", b"{}", {})
    await post.close()

    assert answer.status is None
    assert str(answer.error).startswith("hooks.example has no public address")
    assert not any(address in str(answer.error) for address in ("127.0.0.1", "10.0.0.1"))
    assert receiver.got == []


@pytest.mark.parametrize(
    "fault",
    [
        OSError(111, "Connect call failed ('127.0.0.3', 80)"),
        httpx.ReadError("lost 127.0.0.3:80"),
        httpx.ConnectTimeout("127.0.0.33 and 127.0.0.3 took too long"),
        AttributeError("'NoneType' object, of 127.0.0.3, has no attribute 'getpeername'"),
    ],
)
async def test_what_went_wrong_is_told_without_the_addresses_of_the_host_e12(fault, monkeypatch, resolving) -> None:
    """A network that the settings admit is still nobody's to read: a delivery's error stands before a plain user."""

    async def fail(*_: object) -> None:
        raise fault

    resolving(["127.0.0.33", "127.0.0.3"])
    monkeypatch.setattr("treadle_server.webhooks.post._send_to", fail)
    post = Post(timeout=5, allowed=LOOPBACK)

    answer = await post.send("http://hooks.example/", b"{}", {})
    await post.close()

    assert "hooks.example" in str(answer.error)
    assert "127.0.0" not in str(answer.error)


async def test_of_several_addresses_one_that_can_be_reached_is_taken_e12(receiver, resolving) -> None:
    """Nothing listens at 127.0.0.3, and 10.0.0.1 is not allowed."""
    resolving(["10.0.0.1", "127.0.0.3", "127.0.0.1"])
    post = Post(timeout=5, allowed=LOOPBACK)

    answer = await post.send(f"http://hooks.example:{receiver.port}/", b"{}", {})
    await post.close()

    assert (answer.status, len(receiver.got)) == (200, 1)


async def test_an_address_that_is_silent_leaves_time_for_the_next_e12(receiver, resolving) -> None:
    """Of a listener whose queue is full the kernel answers no more connection.

    Each address has half a second; one that answers stands there often, for a machine may stand still for longer.
    """
    with socket.socket() as silent, socket.socket() as queued:
        silent.bind(("127.0.0.3", receiver.port))
        silent.listen(0)
        queued.connect(silent.getsockname())
        resolving(["127.0.0.3", *["127.0.0.1"] * 19])
        post = Post(timeout=10, allowed=LOOPBACK)

        answer = await post.send(f"http://hooks.example:{receiver.port}/", b"{}", {})
        await post.close()

    assert (answer.status, len(receiver.got)) == (200, 1)


async def test_no_proxy_of_the_environment_is_used_e12(receiver, monkeypatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    post = Post(timeout=5, allowed=LOOPBACK)

    answer = await post.send(receiver.url, b"{}", {})
    await post.close()

    assert answer.status == 200


@pytest.mark.parametrize("name", ["hooks.example", "other.example"])
async def test_a_receivers_certificate_must_be_for_its_name_and_not_for_the_address_e12(
    name, tmp_path, monkeypatch, resolving
) -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("hooks.example").configure_cert(context)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    resolving(["127.0.0.1"])
    post = Post(timeout=5, allowed=LOOPBACK)

    async with receiving(tls=context) as receiver:
        answer = await post.send(f"https://{name}:{receiver.port}/", b"{}", {})
    await post.close()

    if name == "hooks.example":
        assert (answer.status, answer.error) == (200, None)
    else:
        assert "certificate is not valid for 'other.example'" in str(answer.error)
        assert receiver.got == []
