"""Text from other people made safe for a terminal: nothing in it moves the cursor, sets titles or changes direction.

The command, the dashboard and the logs all use it.
"""

import logging
import re
import unicodedata
from functools import lru_cache

_ESCAPED = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_JOINERS = "\u200c\u200d"


@lru_cache(maxsize=4096)
def _shown(char: str, *, ascii_only: bool) -> str:
    if unicodedata.category(char) not in _ESCAPED and (char.isascii() or not ascii_only):
        return char
    if char in _NAMED:
        return _NAMED[char]
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _joins(text: str, at: int) -> bool:
    """Return whether a joiner is where writing needs it: in an emoji, or a Persian or Indic word."""
    beside = text[at - 1 : at] + text[at + 1 : at + 2]
    return len(beside) == 2 and all(not char.isascii() and unicodedata.category(char)[0] in "LMS" for char in beside)


def clean(text: str, *, limit: int | None = None, ascii_only: bool = False) -> str:
    r"""Return at most the first `limit` characters of `text`, with everything that a terminal would obey escaped.

    Control characters (C0, C1, DEL), bidi marks and overrides, zero-width and unassigned characters and lone surrogates
    become escapes such as `\x1b` and `\u202e`; joiners within emoji and words stay. With `ascii_only`, all other
    non-ASCII characters become escapes too.
    """
    head = text if limit is None else text[:limit]
    if head.isascii() and head.isprintable():
        return head
    return "".join(
        char if char in _JOINERS and not ascii_only and _joins(head, at) else _shown(char, ascii_only=ascii_only)
        for at, char in enumerate(head)
    )


def clean_lines(text: str, *, indent: str = "  ") -> str:
    """Clean each line as `clean` does; tabs become spaces.

    Lines after the first begin with `indent`, so that nothing in them can pass for a line of its own.
    """
    first, *others = (clean(line.rstrip("\r").expandtabs()) for line in text.split("\n"))
    return "\n".join([first, *(f"{indent}{line}" if line else "" for line in others)])


def clean_json(text: str) -> str:
    """Return equivalent JSON, with everything that a terminal would obey as JSON's own escapes."""
    return text if text.isascii() and "\x7f" not in text else _OUTSIDE.sub(_escape, text)


_OUTSIDE = re.compile(r"[^\x20-\x7e\n\t\r]")
"""Characters that may need an escape; in JSON they only occur within strings."""


def _escape(found: re.Match[str]) -> str:
    char = found[0]
    if unicodedata.category(char) not in _ESCAPED or (char in _JOINERS and _joins(found.string, found.start())):
        return char
    code = ord(char)
    if code < 0x10000:
        return f"\\u{code:04x}"
    high, low = divmod(code - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"


class CleanFormatter(logging.Formatter):
    """Formats log records as `clean_lines` does, because they contain text from users and servers."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record's lines, including its traceback."""
        return clean_lines(super().format(record))
