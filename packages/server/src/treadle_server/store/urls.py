"""Parse the database's URL, and show it without its password."""

import os
import re
import stat
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from treadle.wire.paths import check_name, user_path
from treadle_server.errors import SettingUnusable
from treadle_server.settings import sqlite_url


def parse_url(text: str) -> URL:
    """Return the database's URL with the async driver filled in.

    Accepts `sqlite:///path`, whose path may begin with `~`, `postgresql://…`, and both with `+aiosqlite` or `+asyncpg`.
    PostgreSQL may have several hosts, as libpq's URLs:
    `postgresql://me@first:5432,second:5432/tasks?target_session_attrs=read-write`. Raises `SettingUnusable` for any
    other database, for an invalid URL, for SQLite in memory, with parameters or at a path that is not a regular file,
    and for PostgreSQL when its driver, or a file that the URL names, is missing.
    """
    try:
        check_name(unquote(text))
        url = make_url(_SEVERAL.sub(_as_parameters, text))
    except (ArgumentError, ValueError):
        raise _unreadable(text) from None
    backend = url.get_backend_name()
    drivers = {"sqlite": "sqlite+aiosqlite", "postgresql": "postgresql+asyncpg", "postgres": "postgresql+asyncpg"}
    if backend not in drivers:
        raise SettingUnusable(f"unsupported database {url.drivername!r}: use sqlite or postgresql")
    if backend == "sqlite" and not _is_file(url):
        # In memory each connection would have its own database.
        raise SettingUnusable(
            f"{_masked(text)!r} names no file, and an SQLite database has to be one: write sqlite:///path, or"
            " sqlite:////path for an absolute path"
        )
    if backend == "sqlite" and "?" in text:
        # SQLAlchemy would drop the rest of such a path, and open another file.
        raise SettingUnusable(f"{_masked(text)!r}: SQLite URLs take no parameters; a ? in the path is written %3F")
    if backend == "sqlite":
        url = url.set(database=str(user_path(url.database)))
    if backend == "sqlite" and (kind := _other_than_a_file(url.database or "")):
        # Other users' permissions are removed from the database, as they would be from a directory: naming /tmp closed
        # that to everybody.
        raise SettingUnusable(
            f"{url.database} is {kind}, and an SQLite database has to be a file: name a file, which need not exist yet;"
            " nothing was changed"
        )
    if drivers[backend] == "postgresql+asyncpg" and find_spec("asyncpg") is None:
        raise SettingUnusable(
            "PostgreSQL needs asyncpg, which is not installed: pip install 'treadle-server[postgres]'"
        )
    url = url.set(drivername=drivers[backend])
    if backend != "sqlite":
        _check_parameters(url, text)
    return url


def _check_parameters(url: URL, text: str) -> None:
    """Raise `SettingUnusable` for invalid hosts and ports, and for files that can't be read.

    Otherwise the engine would raise the driver's own errors.
    """
    try:
        of_hosts = {name: url.query[name] for name in ("host", "port") if name in url.query}
        _, arguments = url.get_dialect()().create_connect_args(url.set(query=of_hosts))
        for host in _listed(arguments.get("host", [])):
            if not host.startswith(("/", "@")):  # the directory of a socket, or an abstract one
                host.encode("idna")
    except (ArgumentError, ValueError):
        raise _unreadable(text) from None
    if "@" in (url.host or "") or not all(0 < port < 65536 for port in _listed(arguments.get("port", []))):
        raise _unreadable(text)
    for name in _FILES & url.query.keys():
        # The driver's own error names no file.
        if not os.access(path := str(url.query[name]), os.R_OK):
            raise SettingUnusable(f"{name} in the database's URL names {path}, which can't be read: check the path")


_FILES = frozenset({"sslrootcert", "sslcert", "sslkey", "sslcrl"})
"""Parameters of libpq's URLs that name files."""


def _listed(one_or_several: Any) -> list[Any]:
    return one_or_several if isinstance(one_or_several, list) else [one_or_several]


def _unreadable(text: str) -> SettingUnusable:
    return SettingUnusable(
        f"invalid database URL {_masked(text)!r}: write sqlite:///path or postgresql://user@host/database;"
        " in a password @ is %40, / is %2F and % is %25"
    )


def _masked(text: str) -> str:
    """Return a URL without anything that may be a password: in one that can't be parsed it may be anywhere."""
    without = re.sub(r"^((?:[\w+.-]*:?/+)?+[^:/@]*):.*@", r"\1:***@", text, flags=re.DOTALL)
    return re.sub(r"([?&](?:ssl)?password=)[^&]*", r"\1***", without)


def shown(url: URL) -> str:
    """Return a database's URL without passwords, whether they come before the host or among the parameters."""
    named = url.set(drivername=url.get_backend_name()).difference_update_query(_SECRET)
    if named.drivername == "sqlite" and named.database and not named.query:
        # SQLAlchemy percent-encodes every non-ASCII letter.
        return sqlite_url(named.database)
    return named.render_as_string()


_SECRET = ("password", "sslpassword")
"""Parameters of libpq's URLs that are secret."""


def _other_than_a_file(path: str) -> str | None:
    """Return what is at the path if it is not a regular file; a path that can't be examined is reported later."""
    try:
        mode = Path(path).stat().st_mode
    except OSError:
        return None
    if stat.S_ISDIR(mode):
        return "a directory"
    return None if stat.S_ISREG(mode) else "no regular file"


def _is_file(url: URL) -> bool:
    """Return whether the URL names a path: not memory, not a URI, and not `sqlite://path`, where path is a host."""
    path = url.database or ""
    return not (url.username or url.host or url.port) and path not in {"", ":memory:"} and not path.startswith("file:")


_SEVERAL = re.compile(
    r"^(?P<before>[^:/]+://(?:[^@/]*@)?)(?P<hosts>[^/?@]*,[^/?@]*)(?P<path>/[^?]*)?(?:\?(?P<query>.*))?$"
)
"""A URL with several hosts, each with or without a port."""


def _as_parameters(match: re.Match[str]) -> str:
    """Return the URL with its hosts and ports as two parameters, which both SQLAlchemy and asyncpg understand."""
    pairs = [host.rpartition(":") if ":" in host else (host, ":", "5432") for host in match["hosts"].split(",")]
    hosts, ports = ",".join(pair[0] for pair in pairs), ",".join(pair[2] for pair in pairs)
    query = f"host={hosts}&port={ports}" + (f"&{match['query']}" if match["query"] else "")
    return f"{match['before']}{match['path'] or '/'}?{query}"


def dsn_of(url: URL) -> str:
    """Return the URL for the driver, with every parameter that PostgreSQL's own programs know: sslmode, sslrootcert, ….

    SQLAlchemy would pass the parameters on as keyword arguments, of which sslmode is none.
    """
    query = dict(url.query)
    if (mode := query.pop("ssl", None)) is not None:  # SQLAlchemy's name for it
        query.setdefault("sslmode", mode)
    return url.set(drivername="postgresql", query=query).render_as_string(hide_password=False)
