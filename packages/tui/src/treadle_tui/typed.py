"""Prepares terminal input for Textual's parser: replaces invalid UTF-8, and removes escapes from pasted text."""

import codecs

ESC = "\x1b"
BEGIN = f"{ESC}[200~"
END = f"{ESC}[201~"
"""The marks that a terminal puts around pasted text (mode 2004)."""


class Typed:
    """Turns bytes into text, in chunks of any size.

    An invalid UTF-8 byte becomes a replacement character. A terminal with another encoding sends such bytes for
    accented letters, and one with the old mouse protocol for positions far to the right; neither may end the dashboard.

    Pasted text loses its escape characters. Most terminals remove them, but tmux passes on what its buffers contain.
    Textual's parser takes what follows an escape for keys, so a line of a coloured log would quit or cancel tasks.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._pasting = False
        self._matched = 0
        """How many characters of the next mark have been read."""

    def read(self, data: bytes) -> str:
        """Return the text to parse now; characters that may belong to an incomplete one or to a mark are held back."""
        return "".join(map(self._take, self._decoder.decode(data)))

    def _take(self, character: str) -> str:
        mark = END if self._pasting else BEGIN
        if character == mark[self._matched]:
            self._matched += 1
            if self._matched < len(mark):
                # In pasted text, hold back what may be the end mark until it is complete.
                return "" if self._pasting else character
            self._matched, self._pasting = 0, not self._pasting
            return END if mark == END else character
        held = mark[1 : self._matched] if self._pasting else ""
        self._matched = int(character == ESC)
        return held if self._pasting and character == ESC else held + character
