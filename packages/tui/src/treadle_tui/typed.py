"""What a terminal sends, as Textual's parser can take it: bytes that are no UTF-8, and pastes with escapes in them."""

import codecs

ESC = "\x1b"
BEGIN = f"{ESC}[200~"
END = f"{ESC}[201~"
"""What a terminal puts round a paste (mode 2004)."""


class Typed:
    """Turns bytes into text, in pieces of any size.

    A byte that is no UTF-8 becomes a replacement character: a terminal of another encoding sends some for letters with
    marks, one that reports the mouse in the old way for a place far to the right, and neither may end the dashboard.

    Pastes lose their escape characters, as most terminals have it by themselves; tmux hands on what its buffers have.
    Textual's parser takes what stands behind one as keys: a line of a coloured log would quit, or cancel tasks.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._pasting = False
        self._matched = 0
        """How many characters of the next mark have come."""

    def read(self, data: bytes) -> str:
        """Return what is to be parsed now; nothing as long as what came is half of something."""
        return "".join(map(self._take, self._decoder.decode(data)))

    def _take(self, character: str) -> str:
        mark = END if self._pasting else BEGIN
        if character == mark[self._matched]:
            self._matched += 1
            if self._matched < len(mark):
                # Of a paste what may be its end is held back until that is known.
                return "" if self._pasting else character
            self._matched, self._pasting = 0, not self._pasting
            return END if mark == END else character
        held = mark[1 : self._matched] if self._pasting else ""
        self._matched = int(character == ESC)
        return held if self._pasting and character == ESC else held + character
