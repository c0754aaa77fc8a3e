"""The environment variables that Treadle knows, and a check for misspelt ones."""

import os
import re
from collections.abc import Mapping
from difflib import get_close_matches

PREFIX = "TREADLE_"

KNOWN = frozenset(
    PREFIX + name
    for name in (
        "ALLOWED_CATEGORIES", "ALLOWED_ORIGINS", "ARTIFACTS", "ARTIFACTS_EXPIRE_SECONDS", "ARTIFACTS_MAX_BYTES",
        "AUTH", "BROKER", "CAPTURE_OUTPUT", "DATABASE_DIRECT_URL", "DATABASE_URL", "DATA_DIR",
        "ENCRYPTION_KEYS", "ENCRYPTION_KEYS_FILE", "HEARTBEAT_INCREMENT",
        "HOST", "INTERNAL", "INTERNAL_TASK_TIMEOUT_SECONDS", "LEASE_SECONDS", "LOG_FORMAT",
        "LONG_POLL_MAX_WAIT_SECONDS", "MAX_BODY_BYTES", "MAX_CONNECTIONS", "MAX_CONNECTIONS_PER_ADDRESS",
        "MAX_FAILED_TOKENS", "MAX_REQUEUES",
        "MAX_RETRIES", "METRICS_HOST", "METRICS_MAX_JOBS", "METRICS_PORT", "ON_RESTART", "OUTBOX_DATABASE_URL", "PORT",
        "PUBLIC_URL",
        "RETENTION_CANCELLED_SECONDS", "RETENTION_COMPLETED_SECONDS", "RETENTION_FAILED_SECONDS", "RETRY_BASE",
        "RETRY_MULTIPLIER", "RETRY_RANDOMIZATION", "ROOM", "SESSION_GRACE_SECONDS", "SESSION_PING_SECONDS",
        "SESSION_QUEUE_BYTES", "START_TIMEOUT", "SWEEPER_INTERVAL_SECONDS", "TIMEOUT", "TLS_CERT", "TLS_KEY",
        "TOKEN", "TRUSTED_PROXIES", "TUI_CONFIG", "URL", "WEBHOOK_ALLOWED_NETWORKS", "WEBHOOK_ATTEMPTS",
        "WEBHOOK_TIMEOUT_SECONDS", "WORKER_TIMEOUT_SECONDS", "WRITER_MAX_ROWS",
    )
)  # fmt: skip
"""The settings of the SDK, of the server and of the dashboard, whichever of them is installed, because an environment
is often meant for all of them. A test compares these with the classes."""

_OTHERS = re.compile(
    r"TREADLE_(TEST|BENCH)_.*|TREADLE_(.*_)?SERVICE_(HOST|PORT)(_.*)?|TREADLE_(.*_)?PORT_\d+_(TCP|UDP)(_.*)?"
)
"""The variables of the tests and the benchmark, and those that Kubernetes sets in every pod beside a service
`treadle`."""


_told: set[str] = set()


def untold() -> list[str]:
    """Return what `misspelt` finds in this process's environment, each sentence only once in a process."""
    new = [sentence for sentence in misspelt(os.environ) if sentence not in _told]
    _told.update(new)
    return new


def misspelt(environment: Mapping[str, str]) -> list[str]:
    """Return a sentence for each variable that begins with `TREADLE_` and that nothing reads, with the nearest name.

    As for settings, upper and lower case are the same. Values are not shown, because one may be a token.
    """
    return [_sentence(name) for name in sorted(environment) if _is_unknown(name.upper())]


def _is_unknown(name: str) -> bool:
    return name.startswith(PREFIX) and name not in KNOWN and not _OTHERS.fullmatch(name)


def _sentence(name: str) -> str:
    near = get_close_matches(name.upper(), KNOWN, n=1, cutoff=0.8)
    meant = f"is {near[0]} meant?" if near else "docs/settings.md lists all settings"
    return f"the variable {name} is not a Treadle setting and has no effect: {meant}"
