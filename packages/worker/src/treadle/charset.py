"""Output in an encoding that lacks characters, such as Latin-1: they are written as escapes."""

import codecs
import io
import json
import sys

SPELT = "treadle-spelt"
"""The name of the error handler that writes them, registered like Python's own `backslashreplace`."""

ENDING = frozenset({"strict", "surrogateescape"})
"""The error handlers under which Python raises for such a character; the second is the default in the C locale."""


def escape_unencodable_output() -> None:
    """Have this process escape what its output's encoding lacks, where Python would fail in the middle of a line."""
    codecs.register_error(SPELT, _spelt)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors in ENDING:
            stream.reconfigure(errors=SPELT)


def _spelt(error: UnicodeError) -> tuple[str, int]:
    """Return the escapes to write for the characters: those of JSON, so that JSON stays valid."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end
