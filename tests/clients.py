"""HTTP clients of servers that tests start."""

import ssl

import httpx

PLAIN = ssl.create_default_context()
"""A client makes one of its own otherwise, which takes 20 ms, for addresses that begin with `http` too."""


def client_at(url: str, headers: dict[str, str]) -> httpx.AsyncClient:
    """A client of the server at this address."""
    return httpx.AsyncClient(base_url=url, headers=headers, timeout=30, verify=PLAIN)
