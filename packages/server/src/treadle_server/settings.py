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
from treadle_server.domain.jobs import OnRestart

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
"""The only hosts on which `auth=none` is allowed."""

DATA_DIR = "--data-dir or TREADLE_DATA_DIR"
"""Where another data directory is chosen."""

DAY = 86_400.0
"""Seconds."""


ARTIFACT_STORES = ("file", "s3", "gs", "az", "memory")
"""Schemes of the URLs at which artifacts can be kept."""


def sqlite_url(path: Path | str) -> str:
    """Return the URL of SQLite's file at a path, in which `?` and `%` have a meaning of their own."""
    return f"sqlite:///{str(path).replace('%', '%25').replace('?', '%3F')}"


_CATEGORY = re.compile(r"[^:/\x00-\x1f\x7f]+")
"""A category as a job's full name, which is split at colons and stands in a path, can have it."""

_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^/@*]+")
"""A scheme, a host, and perhaps a port."""

LONGEST = 36_500 * DAY
"""A hundred years: not far behind it no date can be told any more."""

Positive = Annotated[float, Field(gt=0, le=LONGEST, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, le=LONGEST, allow_inf_nan=False)]
OfTask = Annotated[float, Field(ge=0, le=TEN_YEARS, allow_inf_nan=False)]
"""A duration that a submit may say too, and so no longer than one."""
PositiveOfTask = Annotated[OfTask, Field(gt=0)]
Budget = Annotated[int, Field(ge=0, le=MOST_TRIES)]
"""Retries or requeues, as many as a submit may say."""
Host = Annotated[str, Field(min_length=1)]


class Settings(BaseSettings):
    """Every setting of the server. Each is also an environment variable: `port` is `TREADLE_PORT`."""

    model_config = SettingsConfigDict(
        env_prefix="TREADLE_",
        extra="ignore",
        use_attribute_docstrings=True,
        # As the SDK, which looks for the token in the same place: no host would mean all addresses, for instance.
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
    """PostgreSQL itself, when `database_url` leads to a pool of transactions such as pgbouncer; else empty."""

    auth: Literal["token", "none"] = "token"
    """`token`: every request needs one. `none`: everybody is the superuser; only on a loopback address."""

    max_failed_tokens: Annotated[int, Field(ge=0)] = 20
    """Tokens that are not valid within 10 seconds from one address, after which it is told to wait (429); 0: no end."""

    trusted_proxies: Annotated[tuple[str, ...], NoDecode] = ()
    """Addresses and networks of proxies, separated by commas, whose X-Forwarded-For and -Proto are believed."""

    tls_cert: UserPath | None = None
    """A PEM file with the server's certificate and those between it and its authority: then the server speaks HTTPS."""

    tls_key: UserPath | None = None
    """A PEM file with the certificate's private key, unless it stands in the same file."""

    allowed_categories: Annotated[tuple[str, ...], NoDecode] = ("tasks", "modifiers", "selections", "analysis")
    """The categories that jobs may be registered in, separated by commas."""

    allowed_origins: Annotated[tuple[str, ...], NoDecode] = ()
    """Origins, separated by commas, whose web pages may open the session socket beside the server's own."""

    worker_timeout_seconds: Positive = 60
    """A worker that has not been heard of for so long is lost."""

    sweeper_interval_seconds: Positive = 5
    """How often expired leases, lost workers and orphaned jobs are looked for."""

    long_poll_max_wait_seconds: Positive = 60
    """The longest that `Prefer: wait=N` holds a request."""

    session_grace_seconds: NotNegative = 5
    """How long a worker whose socket broke may stay away before what it has not started is returned."""

    session_ping_seconds: Positive = 20
    """How often the server pings on the session socket."""

    session_queue_bytes: Annotated[int, Field(ge=65_536)] = 32 * 1024 * 1024
    """How much may wait to be sent on one session socket; behind it a slower reader is dropped with code 4408. Claims,
    results and answers wait at a quarter of it, and drop nobody. Where eight times as much waits on all sockets
    together, each has a thirty-second of it."""

    max_body_bytes: Annotated[int, Field(ge=1024)] = 16 * 1024 * 1024
    """The largest request body, and the largest frame of the session socket. Where eight times as much is under way on
    all connections together, those of more than 64 KiB are told to come again (429, and code 1013)."""

    max_connections: Annotated[int, Field(ge=1)] = 10_000
    """Connections at once, as far as the limit of open files leaves room; of more, the oldest without a token goes."""

    max_connections_per_address: Annotated[int, Field(ge=0)] = 2_000
    """Connections of one address at once, unless it is a trusted proxy's; 0: no bound of its own."""

    log_format: Style = "console"
    """`console`: lines to read on standard error. `json`: an object a line, for what collects logs."""

    metrics_port: Annotated[int, Field(ge=0, le=65535)] | None = None
    """A port at which `/metrics` is answered without a token, 0 a free one; none means at the server's own alone."""

    metrics_host: Host = "127.0.0.1"
    """The address of that port."""

    metrics_max_jobs: Annotated[int, Field(ge=1, le=1000)] = 100
    """Jobs that are told apart by name in `/metrics`: those that were registered first; the others are one."""

    writer_max_rows: Annotated[int, Field(ge=1)] = 1000
    """Tasks that one transaction writes at most, unless more belong together; 1 commits each by itself."""

    max_retries: Budget = 0
    """How often a task is retried when neither it nor its job says."""

    max_requeues: Budget = 0
    """How often a task is requeued after a lost worker when neither it nor its job says."""

    retry_base: OfTask = 5
    """The delay of the first retry, in seconds."""

    retry_multiplier: Annotated[float, Field(ge=1, le=MOST_MULTIPLIER)] = 2
    """By how much each further retry waits longer."""

    retry_randomization: Annotated[float, Field(ge=0, le=MOST_RANDOMIZATION)] = 0
    """The share by which a retry's delay may be longer at random."""

    lease_seconds: PositiveOfTask = 60
    """How long a claim lasts without a heartbeat."""

    heartbeat_increment: OfTask | None = None
    """To how long after it a heartbeat extends the lease; none means as long as the lease, 0 makes leases strict."""

    start_timeout: PositiveOfTask = 60
    """A claimed task that has not been started for so long goes back to the queue."""

    artifacts: str = ""
    """Where artifacts are kept: `file:///path`, `s3://bucket/prefix`, `gs://…`, `az://…` or `memory://`.

    Empty means the directory `artifacts` in the data directory.
    """

    artifacts_max_bytes: Annotated[int, Field(ge=1, le=5 * 1024**3)] = 1024**3
    """The largest artifact."""

    artifacts_expire_seconds: Positive | None = None
    """How long an artifact is kept that names no time of its own; none means as long as its task."""

    public_url: str = ""
    """The address at which clients reach the server, for URLs that it hands out; empty means the request's own."""

    retention_completed_seconds: NotNegative = 30 * DAY
    """How long completed tasks are kept after their end, with their runs, logs and artifacts; 0 keeps them for ever."""

    retention_cancelled_seconds: NotNegative = 30 * DAY
    """How long cancelled tasks are kept; 0 keeps them for ever."""

    retention_failed_seconds: NotNegative = 90 * DAY
    """How long failed tasks are kept; 0 keeps them for ever. One that holds its target stays until it is settled."""

    webhook_timeout_seconds: Annotated[float, Field(gt=0, le=300)] = 15
    """How long a webhook's receiver may take to answer."""

    webhook_attempts: Annotated[int, Field(ge=1, le=100)] = 12
    """How often a delivery is tried, over a day or so by default, before it is dead and waits to be redelivered."""

    webhook_allowed_networks: Annotated[tuple[str, ...], NoDecode] = ()
    """Networks such as `10.0.0.0/8`, separated by commas, to which webhooks may go beside public addresses."""

    internal: str | None = None
    """`module:registry`: the executors of `@internal` jobs; none means that such jobs are not run."""

    internal_task_timeout_seconds: Positive = 3600
    """A run of an `@internal` job that has not ended so long after its claim is stuck, and fails."""

    on_restart: OnRestart = "requeue"
    """What becomes of a run of an `@internal` job that ran in a server's own process when that died: `requeue` ends it
    as lost, so that its task runs again at once while requeues last, `backoff` the same after the delay of a retry;
    `keep` leaves it to its timeout."""

    @field_validator("artifacts")
    @classmethod
    def _check_artifacts(cls, value: str) -> str:
        scheme, separator, rest = value.partition("://")
        if value and not (separator and scheme in ARTIFACT_STORES and (rest or scheme == "memory")):
            known = ", ".join(f"{name}://…" for name in ARTIFACT_STORES)
            raise ValueError(f"{value!r} names no store of artifacts; write one of {known}")
        if scheme == "file" and not rest.startswith("/"):
            raise ValueError(f"{value!r} has no path from the root on; write file:///path, with three slashes")
        check_name(unquote(value))
        return value

    @field_validator("public_url")
    @classmethod
    def _check_public_url(cls, value: str) -> str:
        if value and not (value.startswith(("http://", "https://")) and _names_a_host(value)):
            raise ValueError(f"{value!r} is no address; write http://host:port or https://host/path")
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
        for category in value:
            if not _CATEGORY.fullmatch(category):
                raise ValueError(
                    f"{category!r} is no category: in a job's name none has ':', '/' or control characters"
                )
        return value

    @field_validator("allowed_origins")
    @classmethod
    def _check_origins(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        # A browser sends it in lower case and without a slash behind it, and it is compared as it is sent.
        origins = tuple(origin.lower().rstrip("/") for origin in value)
        for origin in origins:
            if origin != "null" and not (_ORIGIN.fullmatch(origin) and _names_a_host(origin)):
                raise ValueError(f"{origin!r} is no origin of pages: write https://host or https://host:port")
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
                f"data_dir is {self.data_dir}, and this user has no home: set TREADLE_DATA_DIR to a path without ~, or"
                " HOME"
            )
        if self.database_direct_url and not self.database_url:
            # It would be the file in the data directory.
            raise ValueError("database_direct_url is given without database_url: name the pool there that leads to it")
        if self.database_direct_url and "sqlite" in {
            url.partition(":")[0].partition("+")[0] for url in (self.database_url, self.database_direct_url)
        }:
            raise ValueError("database_direct_url and database_url lead to one PostgreSQL, and one of them is SQLite's")
        if not self.database_url:
            self.database_url = sqlite_url(self.data_dir / "treadle.db")
        if self.tls_key is not None and self.tls_cert is None:
            raise ValueError("tls_key is given without tls_cert: name the certificate that belongs to the key")
        if self.auth == "none" and self.host not in LOOPBACK:
            raise ValueError(
                f"auth is none and host is {self.host}: without tokens the server listens on loopback addresses only"
                " (127.0.0.1, ::1, localhost)"
            )
        return self

    @property
    def retention(self) -> dict[Status, timedelta]:
        """Return how long ended tasks are kept, by status; a status whose tasks stay for ever is left out."""
        seconds = {
            Status.COMPLETED: self.retention_completed_seconds,
            Status.FAILED: self.retention_failed_seconds,
            Status.CANCELLED: self.retention_cancelled_seconds,
        }
        return {status: timedelta(seconds=age) for status, age in seconds.items() if age > 0}

    @property
    def artifacts_directory(self) -> Path | None:
        """Return the directory in which artifacts are kept; None where they are kept elsewhere."""
        if not self.artifacts:
            return self.data_dir / "artifacts"
        parts = urlsplit(self.artifacts)
        return Path(unquote(parts.path)) if parts.scheme == "file" else None

    @property
    def token_file(self) -> Path:
        """Return where the superuser's token is written at the first start."""
        return self.data_dir / "token"


def _names_a_host(url: str) -> bool:
    """Whether a URL names a host, a port that there can be, and nothing behind a path."""
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and parts.port != 0 and not {"?", "#", " "} & set(url)
    except ValueError:  # a port that is no number, or a bracket without its other
        return False


def problems_in(error: ValidationError, options: Mapping[str, str] | None = None) -> str:
    """Return what is wrong with settings: the variable and the value of each, unless its own check names them.

    Those of `options` have the option instead by which they were given.
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
