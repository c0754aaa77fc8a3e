"""The store that a URL names, as obstore knows it: a directory, S3, Google Cloud Storage, Azure, or memory."""

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
"""A store that does not answer is told to the client while it still waits."""

TIMEOUTS: "ClientConfig" = {"connect_timeout": "5s", "read_timeout": "60s", "timeout": "1h"}
"""A large object may take long; what stands still may not."""

ALLOW_HTTP = "AWS_ALLOW_HTTP"
"""Allows an endpoint without TLS. The store heeds it by itself only where it is given no options of its client."""


def open_store(url: str, directory: Path | None) -> "ObjectStore":
    """Return the store in `directory`, or where there is none at the URL.

    Credentials of clouds come from their own environment variables, such as AWS_ACCESS_KEY_ID. Raises
    `SettingUnusable` for a URL that names no store.
    """
    if directory is not None:
        # Made here, and not by the store: what tasks upload is nobody else's to read.
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
