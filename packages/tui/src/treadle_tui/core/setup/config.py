"""The configuration file: the theme, the user's own keys, and servers and views by name."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from treadle.filters import FilterError, parse
from treadle.settings import InvalidSetting, split_urls, token_in
from treadle.wire.paths import user_path
from treadle_tui.core.setup.app_state import TRACE_ID, Notify
from treadle_tui.core.setup.theme_names import THEMES
from treadle_tui.core.verbs.keymap import Keymap, KeymapError, read_keymap

NOTIFY: tuple[Notify, ...] = get_args(Notify)
"""The values of `notify`."""

_ROOT = {
    "theme": str,
    "ascii": bool,
    "context": str,
    "notify": str,
    "trace_url": str,
    "keys": dict,
    "contexts": dict,
    "views": dict,
}
_CONTEXT = {"url": str, "token_file": str, "room": str, "read_only": bool, "production": bool}
_KINDS = {str: 'a string, such as "…"', bool: "true or false", dict: "a table"}


class ConfigError(Exception):
    """An invalid configuration file: which file, which line, and what to change."""


@dataclass(frozen=True, slots=True)
class Server:
    """A server, and how to connect to it."""

    name: str
    urls: tuple[str, ...]
    token_file: Path | None = None
    room: str | None = None
    read_only: bool = False
    production: bool = False

    def read_token(self) -> str | None:
        """Return the token in its file; None without a file. Raises `ConfigError` if the file has no valid token."""
        if self.token_file is None:
            return None
        place = f"the token of the context {self.name}, {self.token_file}"
        try:
            token = token_in(self.token_file.read_text(), place)
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{place}: {getattr(error, 'strerror', None) or error}") from None
        except InvalidSetting as error:
            raise ConfigError(str(error)) from None
        if not token:
            raise ConfigError(f"{place}: the file is empty")
        return token


@dataclass(frozen=True, slots=True)
class Config:
    """The settings of the file; what it leaves out is None or empty."""

    theme: str | None = None
    ascii_only: bool = False
    keymap: Keymap = field(default_factory=Keymap)
    contexts: Mapping[str, Server] = field(default_factory=dict)
    context: str | None = None
    """The context to start with."""
    views: Mapping[str, str] = field(default_factory=dict)
    """Filters by name."""
    notify: Notify = "off"
    """How to notify the terminal of what has ended or needs attention."""
    trace_url: str | None = None
    """The address of a trace viewer, with `{trace_id}` in it."""

    def server(self, name: str) -> Server:
        """Return a context by name. Raises `ConfigError` if it doesn't exist."""
        if name not in self.contexts:
            known = f"use one of {', '.join(self.contexts)}" if self.contexts else "the configuration file has none"
            raise ConfigError(f'unknown context "{name}": {known}')
        return self.contexts[name]


def default_path() -> Path:
    """Return the default path of the file; for a user without a home directory, a path that doesn't exist."""
    from platformdirs import user_config_path

    try:
        return user_config_path("treadle") / "tui.toml"
    except RuntimeError:
        return Path("~/.config/treadle/tui.toml")


def read_config(path: Path, *, must_exist: bool) -> Config:
    """Read a file; a missing file is empty, unless it must exist. Raises `ConfigError`."""
    try:
        # Some editors write a byte order mark.
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        if must_exist:
            raise ConfigError(f"{path}: no such file") from None
        return Config()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} can't be read: {getattr(error, 'strerror', None) or error}") from None
    return parse_config(text, path)


def parse_config(text: str, path: Path) -> Config:
    """Parse a file's text; `path` is for error messages and relative token files. Raises `ConfigError`."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: {_sentence(str(error), text)}") from None
    return _Parser(text, path).config(document)


class _Parser:
    """Turns the TOML document into a configuration, and finds the line of an error."""

    def __init__(self, text: str, path: Path) -> None:
        self._lines = text.splitlines()
        self._path = path

    def config(self, document: Mapping[str, Any]) -> Config:
        self._check(document, _ROOT, ())
        theme = document.get("theme")
        if theme is not None and theme not in THEMES:
            raise self._wrong(("theme",), f'unknown theme "{theme}": use one of {", ".join(THEMES)}')
        contexts = {name: self._server(name, table) for name, table in document.get("contexts", {}).items()}
        first = document.get("context")
        if first is not None and first not in contexts:
            known = f"use one of {', '.join(contexts)}" if contexts else "there is no table [contexts.NAME]"
            raise self._wrong(("context",), f'unknown context "{first}": {known}')
        return Config(
            theme=theme,
            ascii_only=document.get("ascii", False),
            keymap=self._keymap(document.get("keys", {})),
            contexts=contexts,
            context=first,
            views=self._views(document.get("views", {})),
            notify=self._notify(document.get("notify", "off")),
            trace_url=self._trace_url(document.get("trace_url")),
        )

    def _notify(self, word: str) -> Notify:
        for known in NOTIFY:
            if word == known:
                return known
        raise self._wrong(("notify",), f'invalid notify "{word}": use one of {", ".join(NOTIFY)}')

    def _trace_url(self, url: str | None) -> str | None:
        if url is not None and not (re.fullmatch(r"https?://[!-~]+", url) and TRACE_ID in url):
            example = f"https://traces.example/trace/{TRACE_ID}"
            raise self._wrong(("trace_url",), f'trace_url must be a URL that contains {TRACE_ID}, such as "{example}"')
        return url

    def _views(self, table: Mapping[str, Any]) -> Mapping[str, str]:
        for name, text in table.items():
            if not isinstance(text, str):
                raise self._wrong(("views", name), f"{name} must be {_KINDS[str]}")
            try:
                parse(text)
            except FilterError as error:
                raise self._wrong(("views", name), f"{name}: {error}") from None
        return table

    def _keymap(self, table: Mapping[str, Any]) -> Keymap:
        try:
            return read_keymap(table)
        except KeymapError as error:
            raise self._wrong(("keys", error.action), str(error)) from None

    def _server(self, name: str, table: object) -> Server:
        where = ("contexts", name)
        if not isinstance(table, Mapping):
            raise self._wrong(where, f'write it as a table: [contexts.{name}], with url = "https://…" below it')
        self._check(table, _CONTEXT, where)
        if "url" not in table:
            raise self._wrong(where, f'the context {name} has no url: add url = "https://…"')
        try:
            urls = split_urls(table["url"])
        except InvalidSetting as error:
            raise self._wrong((*where, "url"), str(error)) from None
        file = table.get("token_file")
        try:
            # A relative path starts at the configuration file, so that both can be moved together.
            token_file = None if file is None else self._path.parent / user_path(file)
        except ValueError as error:
            raise self._wrong((*where, "token_file"), str(error)) from None
        return Server(
            name,
            urls,
            token_file=token_file,
            room=table.get("room"),
            read_only=table.get("read_only", False),
            production=table.get("production", False),
        )

    def _check(self, table: Mapping[str, Any], known: Mapping[str, type], where: tuple[str, ...]) -> None:
        for key, value in table.items():
            if isinstance(value, Mapping) and f"{key}s" in known:
                names = (f".{name}" for name, inner in value.items() if isinstance(inner, Mapping))
                name = next(names, ".NAME" if key == "context" else "")
                raise self._wrong((*where, key), f"unknown table [{key}{name}]: write [{key}s{name}]")
            if key not in known:
                raise self._wrong((*where, key), f'unknown setting "{key}": use one of {", ".join(known)}')
            if not isinstance(value, known[key]):
                raise self._wrong((*where, key), f"{key} must be {_KINDS[known[key]]}")

    def _wrong(self, where: tuple[str, ...], message: str) -> ConfigError:
        line = self._line_of(where)
        return ConfigError(f"{self._path}{f', line {line}' if line else ''}: {message}")

    def _line_of(self, where: tuple[str, ...]) -> int | None:
        """Return the line that sets a key, or opens its table; None if it is written in an unforeseen way."""
        *tables, key = where
        present: list[str] = []
        for number, line in enumerate(self._lines, start=1):
            if header := re.match(r"\s*\[([^\[\]]+)\]", line):
                present = [_bare(part) for part in re.findall(_PART, header[1])]
                if present[: len(where)] == list(where):
                    return number
            elif (left := re.match(rf"\s*({_PART}(?:\s*\.\s*{_PART})*)\s*=", line)) is not None:
                path = [*present, *(_bare(part) for part in re.findall(_PART, left[1]))]
                if path == [*tables, key]:
                    return number
        return self._line_of(tuple(tables)) if tables else None


_PART = r"""(?:"[^"]*"|'[^']*'|[A-Za-z0-9_-]+)"""


def _bare(part: str) -> str:
    return part.strip("\"'")


def _sentence(error: str, text: str) -> str:
    found = re.fullmatch(r"(.*) \(at (?:line (\d+), column (\d+)|(end of document))\)", error, re.DOTALL)
    if found is None:
        return error
    place = f"line {found[2]}, column {found[3]}" if found[2] else f"line {len(text.splitlines())}, at its end"
    return f"{place}: {found[1][:1].lower()}{found[1][1:]}"
