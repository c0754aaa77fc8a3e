"""Open the object store that a URL names: a directory, S3, Google Cloud Storage, Azure, or memory."""

import os
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from obstore.exceptions import BaseError
from obstore.store import LocalStore, MemoryStore, from_url

from treadle_server.errors import SettingUnusable
from treadle_server.private import make_directory

if TYPE_CHECKING:
    from obstore.store import ClientConfig, ObjectStore, RetryConfig

PATIENCE: "RetryConfig" = {"max_retries": 4, "retry_timeout": timedelta(seconds=20)}
"""Short enough that the client is told of a store that does not answer while it still waits."""

TIMEOUTS: "ClientConfig" = {"connect_timeout": "5s", "read_timeout": "60s", "timeout": "1h"}
"""A large object may take long, a stalled transfer may not."""

ALLOW_HTTP = "AWS_ALLOW_HTTP"
"""Allows an endpoint without TLS. The store itself reads this variable only when it is given no client options."""


def open_store(url: str, directory: Path | None) -> "ObjectStore":
    """Return the store in `directory`, or at the URL if `directory` is None.

    Clouds' credentials come from their own environment variables, such as AWS_ACCESS_KEY_ID. Raises `SettingUnusable`
    for a URL that can't be used.
    """
    if directory is not None:
        # Created here and not by the store, so that other users can't read what tasks upload.
        make_directory(directory, name="the directory of artifacts", setting="TREADLE_ARTIFACTS")
        return LocalStore(prefix=directory)
    if urlsplit(url).scheme == "memory":
        return MemoryStore()
    allows_http = os.environ.get(ALLOW_HTTP, "").lower() in {"1", "true"}
    try:
        return from_url(url, client_options={**TIMEOUTS, "allow_http": allows_http}, retry_config=PATIENCE)
    except (BaseError, ValueError) as error:
        raise SettingUnusable(f"TREADLE_ARTIFACTS: {url} can't be used: {_first_line(error)}") from None


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
