"""The server's settings: one class, read from the environment (`TREADLE_*`)."""

import re
from collections.abc import Mapping
from datetime import timedelta
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import unquote, urlsplit

from pydantic import Field, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from treadle.wire.fields import MOST_MULTIPLIER, MOST_RANDOMIZATION, MOST_TRIES, TEN_YEARS
from treadle.wire.log_lines import Style
from treadle.wire.paths import UserPath, check_name, default_data_dir
from treadle.wire.reasons import reason
from treadle.wire.status import Status
from treadle.wire.values import MOST_INTEGER
from treadle_server.domain.jobs import OnRestart

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
"""The only hosts on which `auth=none` is allowed."""

DATA_DIR = "--data-dir or TREADLE_DATA_DIR"
"""How to choose another data directory, as errors say it."""

DAY = 86_400.0
"""Seconds."""

ARTIFACT_STORES = ("file", "s3", "gs", "az", "memory")
"""URL schemes of the artifact stores."""


def sqlite_url(path: Path | str) -> str:
    """Return the SQLite URL of a path; `?` and `%`, which have a meaning in URLs, are escaped."""
    return f"sqlite:///{str(path).replace('%', '%25').replace('?', '%3F')}"


_CATEGORY = re.compile(r"[^:/\x00-\x1f\x7f]+")
"""What a category may contain: a job's full name is split at colons, and is part of a URL's path."""

_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^/@*]+")
"""A scheme, a host, and perhaps a port."""

LONGEST = 36_500 * DAY
"""A hundred years: much longer durations lead to dates beyond those that `datetime` can represent."""

Positive = Annotated[float, Field(gt=0, le=LONGEST, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, le=LONGEST, allow_inf_nan=False)]
OfTask = Annotated[float, Field(ge=0, le=TEN_YEARS, allow_inf_nan=False)]
"""A duration that a submit may set too; the same limits apply."""
PositiveOfTask = Annotated[OfTask, Field(gt=0)]
Budget = Annotated[int, Field(ge=0, le=MOST_TRIES)]
"""Retries or requeues; the same limits as in a submit."""
Host = Annotated[str, Field(min_length=1)]


class Settings(BaseSettings):
    """Every setting of the server. Each is also an environment variable: `port` is `TREADLE_PORT`."""

    model_config = SettingsConfigDict(
        env_prefix="TREADLE_",
        extra="ignore",
        use_attribute_docstrings=True,
        # As in the SDK, which looks for the token in the same place. An empty host, for instance, would mean all
        # addresses.
        env_ignore_empty=True,
    )

    host: Host = "127.0.0.1"
    """The address to listen on."""

    port: Annotated[int, Field(ge=0, le=65535)] = 7420
    """The port to listen on; 0 picks a free one."""

    data_dir: UserPath = Field(default_factory=default_data_dir)
    """Where the database file and the superuser's token are kept."""

    database_url: str = Field(default="", repr=False)
    """`sqlite:///path` or `postgresql://…`; empty means the file `treadle.db` in the data directory."""

    database_direct_url: str = Field(default="", repr=False)
    """PostgreSQL itself, when `database_url` leads to a transaction pooler such as pgbouncer; otherwise empty."""

    auth: Literal["token", "none"] = "token"
    """`token`: every request needs one. `none`: everybody is the superuser; allowed on loopback addresses only."""

    max_failed_tokens: Annotated[int, Field(ge=0, le=MOST_INTEGER)] = 20
    """Invalid tokens within 10 seconds from one address before that address is told to wait (429); 0: no limit."""

    trusted_proxies: Annotated[tuple[str, ...], NoDecode] = ()
    """Addresses and networks of proxies, separated by commas, whose X-Forwarded-For and -Proto are believed."""

    tls_cert: UserPath | None = None
    """A PEM file with the server's certificate and its intermediate certificates; with it the server speaks HTTPS."""

    tls_key: UserPath | None = None
    """A PEM file with the certificate's private key, unless that is in the same file."""

    allowed_categories: Annotated[tuple[str, ...], NoDecode] = ("tasks", "modifiers", "selections", "analysis")
    """The categories that jobs may be registered in, separated by commas."""

    allowed_origins: Annotated[tuple[str, ...], NoDecode] = ()
    """Origins, separated by commas, whose web pages may open the session socket, besides the server's own."""

    worker_timeout_seconds: Positive = 60
    """A worker that has not been heard of for this long is lost."""

    sweeper_interval_seconds: Positive = 5
    """How often the server looks for expired leases, lost workers and orphaned jobs."""

    long_poll_max_wait_seconds: Positive = 60
    """The longest that `Prefer: wait=N` holds a request."""

    session_grace_seconds: NotNegative = 5
    """How long a worker whose socket broke may stay away before tasks it has not started go back to their queues."""

    session_ping_seconds: Positive = 20
    """How often the server pings on the session socket."""

    session_queue_bytes: Annotated[int, Field(ge=65_536, le=MOST_INTEGER)] = 32 * 1024 * 1024
    """Bytes that may wait to be sent on one session socket; a reader that falls further behind is dropped with code
    4408. Claims, results and answers wait once a quarter of it is full, and never drop anybody. While eight times as
    much waits on all sockets together, each socket may have only a thirty-second of it."""

    max_body_bytes: Annotated[int, Field(ge=1024, le=MOST_INTEGER)] = 16 * 1024 * 1024
    """The largest request body, and the largest frame of the session socket. While eight times as much is being
    received on all connections together, those of more than 64 KiB are told to try again (429, and code 1013)."""

    max_connections: Annotated[int, Field(ge=1, le=MOST_INTEGER)] = 10_000
    """Connections at once, as far as the limit of open files allows; beyond it the oldest without a token is closed."""

    max_connections_per_address: Annotated[int, Field(ge=0, le=MOST_INTEGER)] = 2_000
    """Connections at once from one address, unless that is a trusted proxy's; 0: no limit for an address."""

    log_format: Style = "console"
    """`console`: readable lines on standard error. `json`: one object a line, for log collectors."""

    metrics_port: Annotated[int, Field(ge=0, le=65535)] | None = None
    """A port that answers `/metrics` without a token, 0 for a free one; None: only the server's own port does."""

    metrics_host: Host = "127.0.0.1"
    """The address of that port."""

    metrics_max_jobs: Annotated[int, Field(ge=1, le=1000)] = 100
    """Jobs that `/metrics` shows by name: those that were registered first. All others are shown as one."""

    writer_max_rows: Annotated[int, Field(ge=1, le=MOST_INTEGER)] = 1000
    """The most tasks that one transaction writes, unless more belong together; 1 commits each by itself."""

    max_retries: Budget = 0
    """How often a task is retried, unless it or its job says otherwise."""

    max_requeues: Budget = 0
    """How often a task is requeued after a lost worker, unless it or its job says otherwise."""

    retry_base: OfTask = 5
    """The delay of the first retry, in seconds."""

    retry_multiplier: Annotated[float, Field(ge=1, le=MOST_MULTIPLIER)] = 2
    """The factor by which each further retry waits longer."""

    retry_randomization: Annotated[float, Field(ge=0, le=MOST_RANDOMIZATION)] = 0
    """The share by which a retry's delay may be longer at random."""

    lease_seconds: PositiveOfTask = 60
    """How long a claim lasts without a heartbeat."""

    heartbeat_increment: OfTask | None = None
    """How long after a heartbeat the lease then ends; None: as long as the lease. 0 makes leases strict."""

    start_timeout: PositiveOfTask = 60
    """A claimed task that has not been started within this time goes back to the queue."""

    artifacts: str = ""
    """Where artifacts are kept: `file:///path`, `s3://bucket/prefix`, `gs://…`, `az://…` or `memory://`.

    Empty means the directory `artifacts` in the data directory.
    """

    artifacts_max_bytes: Annotated[int, Field(ge=1, le=5 * 1024**3)] = 1024**3
    """The largest artifact."""

    artifacts_expire_seconds: Positive | None = None
    """How long an artifact is kept that names no time of its own; None: as long as its task."""

    public_url: str = ""
    """The address at which clients reach the server, for URLs in its answers; empty means that of the request."""

    retention_completed_seconds: NotNegative = 30 * DAY
    """How long completed tasks are kept after their end, with their runs, logs and artifacts; 0 keeps them for ever."""

    retention_cancelled_seconds: NotNegative = 30 * DAY
    """How long cancelled tasks are kept; 0 keeps them for ever."""

    retention_failed_seconds: NotNegative = 90 * DAY
    """How long failed tasks are kept; 0 keeps them for ever. A task that holds its target stays until it is settled."""

    webhook_timeout_seconds: Annotated[float, Field(gt=0, le=300)] = 15
    """How long a webhook's receiver may take to answer."""

    webhook_attempts: Annotated[int, Field(ge=1, le=100)] = 12
    """How often a delivery is tried, by default over about a day, before it is dead until a person redelivers it."""

    webhook_allowed_networks: Annotated[tuple[str, ...], NoDecode] = ()
    """Networks such as `10.0.0.0/8`, separated by commas, to which webhooks may go besides public addresses."""

    internal: str | None = None
    """`module:registry`: the executors of `@internal` jobs; None: such jobs are not run."""

    internal_task_timeout_seconds: Positive = 3600
    """A run of an `@internal` job that has not ended this long after its claim is stuck, and fails."""

    on_restart: OnRestart = "requeue"
    """What happens to a run of an `@internal` job in a server's own process when that process died: `requeue` ends it
    as lost, so that its task runs again at once while requeues last; `backoff` does the same after the delay of a
    retry; `keep` leaves it to its timeout."""

    @field_validator("artifacts")
    @classmethod
    def _check_artifacts(cls, value: str) -> str:
        scheme, separator, rest = value.partition("://")
        if value and not (separator and scheme in ARTIFACT_STORES and (rest or scheme == "memory")):
            known = ", ".join(f"{name}://…" for name in ARTIFACT_STORES)
            raise ValueError(f"unknown artifact store {value!r}: write one of {known}")
        if scheme == "file" and not rest.startswith("/"):
            raise ValueError(f"{value!r} has no absolute path: write file:///path, with three slashes")
        check_name(unquote(value))
        return value

    @field_validator("public_url")
    @classmethod
    def _check_public_url(cls, value: str) -> str:
        if value and not (value.startswith(("http://", "https://")) and _names_a_host(value)):
            raise ValueError(f"invalid URL {value!r}: write http://host:port or https://host/path")
        return value.rstrip("/")

    @field_validator(
        "allowed_categories", "allowed_origins", "trusted_proxies", "webhook_allowed_networks", mode="before"
    )
    @classmethod
    def _split(cls, value: object) -> object:
        if isinstance(value, str):
            return tuple(part.strip() for part in value.split(",") if part.strip())
        return value

    @field_validator("allowed_categories")
    @classmethod
    def _check_categories(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not value:
            raise ValueError("names no category, so no job could be registered: write at least one")
        for category in value:
            if not _CATEGORY.fullmatch(category):
                raise ValueError(f"invalid category {category!r}: it can't contain ':', '/' or control characters")
        return value

    @field_validator("allowed_origins")
    @classmethod
    def _check_origins(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        # Browsers send an origin in lower case and without a trailing slash, and it is compared as it was sent.
        origins = tuple(origin.lower().rstrip("/") for origin in value)
        for origin in origins:
            if origin != "null" and not (_ORIGIN.fullmatch(origin) and _names_a_host(origin)):
                raise ValueError(f"invalid origin {origin!r}: write https://host or https://host:port")
        return origins

    @field_validator("webhook_allowed_networks", "trusted_proxies")
    @classmethod
    def _check_networks(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for network in value:
            ip_network(network)  # its error says what is wrong with it
        return value

    @model_validator(mode="after")
    def _fill_and_check(self) -> Self:
        if self.data_dir.parts[:1] == ("~",):
            raise ValueError(
                f"data_dir is {self.data_dir}, but this user has no home directory: set TREADLE_DATA_DIR to a path"
                " without ~, or set HOME"
            )
        if self.database_direct_url and not self.database_url:
            # The database would be SQLite's file in the data directory.
            raise ValueError("database_direct_url is set without database_url: set database_url to the URL of the pool")
        if self.database_direct_url and "sqlite" in {
            url.partition(":")[0].partition("+")[0] for url in (self.database_url, self.database_direct_url)
        }:
            raise ValueError("database_direct_url and database_url must lead to one PostgreSQL, and one is SQLite's")
        if not self.database_url:
            self.database_url = sqlite_url(self.data_dir / "treadle.db")
        if self.tls_key is not None and self.tls_cert is None:
            raise ValueError("tls_key is set without tls_cert: set tls_cert to the certificate that belongs to the key")
        if self.auth == "none" and self.host not in LOOPBACK:
            raise ValueError(
                f"auth is none and host is {self.host}: without tokens the server listens on loopback addresses only"
                " (127.0.0.1, ::1, localhost)"
            )
        return self

    @property
    def retention(self) -> dict[Status, timedelta]:
        """Return how long ended tasks are kept, by status; statuses whose tasks are kept for ever are left out."""
        seconds = {
            Status.COMPLETED: self.retention_completed_seconds,
            Status.FAILED: self.retention_failed_seconds,
            Status.CANCELLED: self.retention_cancelled_seconds,
        }
        return {status: timedelta(seconds=age) for status, age in seconds.items() if age > 0}

    @property
    def artifacts_directory(self) -> Path | None:
        """Return the directory in which artifacts are kept; None if they are kept elsewhere."""
        if not self.artifacts:
            return self.data_dir / "artifacts"
        parts = urlsplit(self.artifacts)
        return Path(unquote(parts.path)) if parts.scheme == "file" else None

    @property
    def token_file(self) -> Path:
        """Return the file to which the superuser's token is written at the first start."""
        return self.data_dir / "token"


def _names_a_host(url: str) -> bool:
    """Return whether a URL has a host, a valid port if any, and no query, fragment or space."""
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and parts.port != 0 and not {"?", "#", " "} & set(url)
    except ValueError:  # a port that is not a number, or an unmatched bracket
        return False


def problems_in(error: ValidationError, options: Mapping[str, str] | None = None) -> str:
    """Return what is wrong with the settings: the variable and the value of each, unless its check names them.

    A setting in `options` is named by the command-line option that gave it instead.
    """
    return "; ".join(_problem(item, options or {}) for item in error.errors())


def _problem(item: Mapping[str, Any], options: Mapping[str, str]) -> str:
    text = reason(item)
    if not item["loc"]:
        return text
    name = "_".join(map(str, item["loc"]))
    place = options.get(name, f"TREADLE_{name.upper()}")
    if item["type"] == "value_error":
        return f"{place}: {text}"
    return f"{place}: {text}, not {item['input']!r}"
