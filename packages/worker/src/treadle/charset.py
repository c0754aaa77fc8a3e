"""Output in an encoding that has not every character, such as Latin-1: what it lacks is spelt out."""

import codecs
import io
import json
import sys

SPELT = "treadle-spelt"
"""The name of how what can't be written is written, as Python's `backslashreplace` is one."""

ENDING = frozenset({"strict", "surrogateescape"})
"""What Python does with such a character by itself, the second in the locale C: it raises."""


def spell_out_what_is_lacking() -> None:
    """Have this process spell out what its output's encoding lacks, where Python ends it in the midst of a line."""
    codecs.register_error(SPELT, _spelt)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors in ENDING:
            stream.reconfigure(errors=SPELT)


def _spelt(error: UnicodeError) -> tuple[str, int]:
    """Return what stands for the characters: JSON's escapes, so that JSON stays JSON."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end
