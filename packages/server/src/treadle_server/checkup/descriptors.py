"""Whether a server that is started here may open as many files as its connections want."""

from treadle.wire.findings import Finding, Seen
from treadle_server.serving.connection_limits import MOST_FILES, MOST_RESERVED

try:
    import resource
except ImportError:  # Windows has no such limits
    resource = None  # type: ignore[assignment]

FEW = 2 * MOST_RESERVED
"""Descriptors with which a server hardly serves anybody."""


def look(max_connections: int) -> Seen:
    """Look at the limit to which a server raises its own: the hard one."""
    if resource is None:
        return [Finding("descriptors", "ok", "this system has no such limit")]
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY:
        return [Finding("descriptors", "ok", "no limit here")]
    room = min(hard, MOST_FILES) - MOST_RESERVED
    told = f"a process started here may open {hard} files"
    if hard < FEW:
        return [Finding("descriptors", "fail", f"{told}: a server itself needs {MOST_RESERVED}", _RAISE)]
    if room < max_connections:
        return [Finding("descriptors", "warn", f"{told}: of {max_connections} connections (TREADLE_MAX_CONNECTIONS)"
                        f" only {room} fit", _RAISE)]  # fmt: skip
    return [Finding("descriptors", "ok", told)]


_RAISE = "raise LimitNOFILE in the systemd unit, or `ulimit -Hn`"
