"""A terminal of our own: what a command in this process prints on it, and what of that a real one would obey."""

import os
import pty
import re
import threading
import tty
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from treadle.cli.group import treadle

_STYLES = re.compile(r"\x1b\[(?:0|1|3|31|32|33)m")
"""Those of our own: bold, italic and three colours."""

_OBEYED = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_JOINERS = "\u200c\u200d"


def text_of(shown: str) -> str:
    """Return what was shown without our own styles, and with plain ends of lines."""
    return _STYLES.sub("", shown).replace("\r\n", "\n")


def obeyed(text: str) -> list[str]:
    """Return the characters that a terminal would obey, or that turn the direction or can't be seen."""
    return [char for char in text if unicodedata.category(char) in _OBEYED and char not in f"\n{_JOINERS}"]


@dataclass
class Terminal:
    """Runs `treadle WORDS…` in this process with both outputs on a terminal."""

    monkeypatch: pytest.MonkeyPatch
    seen: bytearray = field(default_factory=bytearray)
    heard: threading.Condition = field(default_factory=threading.Condition)

    def __call__(self, *words: str) -> tuple[int, str]:
        """Return the exit code and what was shown."""
        return self.during(lambda: treadle.main(args=words, prog_name="treadle"))

    def during(self, work: Callable[[], object]) -> tuple[int, str]:
        """Return the exit code of `work`, 0 when it just returns, and what it showed."""
        self.seen.clear()
        parent, child = pty.openpty()
        # Nothing is echoed or made of what is written, but for the ends of lines.
        tty.setcbreak(child)
        reader = threading.Thread(target=self._read, args=(parent,))
        reader.start()
        try:
            code = self._run(work, child)
        finally:
            os.close(child)
            reader.join()
            os.close(parent)
        return code, self.seen.decode()

    def _run(self, work: Callable[[], object], child: int) -> int:
        with open(child, "w", encoding="utf-8", closefd=False) as screen, self.monkeypatch.context() as patch:
            patch.setattr("sys.stdout", screen)
            patch.setattr("sys.stderr", screen)
            try:
                work()
            except SystemExit as ended:
                return ended.code if isinstance(ended.code, int) else 0
        return 0

    def _read(self, parent: int) -> None:
        while piece := read_terminal(parent):
            with self.heard:
                self.seen += piece
                self.heard.notify_all()

    def wait_for(self, text: str, *, seconds: float) -> bool:
        """Return whether a text was shown until now, or is within some seconds; for another thread."""
        with self.heard:
            return self.heard.wait_for(lambda: text.encode() in self.seen, seconds)


def read_terminal(parent: int) -> bytes:
    """Read what is written to a terminal; nothing when its program has ended."""
    try:
        return os.read(parent, 65_536)
    except OSError:
        # Linux says so when nobody has the other end open.
        return b""
