"""A terminal that can be looked at: a tmux server of its own, one pane, a shell in it."""

import os
import shlex
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.waiting import PAUSE, SECONDS, look_until


class Terminal:
    """The pane of a tmux server that listens on `socket`."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket

    def run(self, *arguments: str) -> str:
        """Give tmux a command and return what it prints; raises `CalledProcessError` with what it complains of."""
        # -u: what it prints is UTF-8, whatever the environment says.
        command = ("tmux", "-u", "-S", str(self._socket), "-f", os.devnull, *arguments)
        # A user whose own shell lets nobody in has a terminal as well.
        own = os.environ | {"SHELL": "/bin/sh"}
        return subprocess.run(
            command, check=True, capture_output=True, encoding="utf-8", timeout=SECONDS, env=own
        ).stdout

    def type(self, text: str) -> None:
        """Type text as it is."""
        self.run("send-keys", "-l", text)

    def press(self, *keys: str) -> None:
        """Press keys, in tmux's spelling: Enter, Escape, C-p, Down, G."""
        self.run("send-keys", *keys)

    def enter(self, *words: str) -> None:
        """Let the shell run a command."""
        self.type(shlex.join(words))
        self.press("Enter")

    def resize(self, width: int, height: int) -> None:
        """Give the terminal another size."""
        self.run("resize-window", "-x", str(width), "-y", str(height))

    def screen(self) -> str:
        """Return what stands on the screen now."""
        return self.run("capture-pane", "-p")

    def ask(self, variable: str) -> str:
        """Return what tmux knows of the pane: `alternate_on`, `mouse_any_flag`, `cursor_flag`."""
        return self.run("display-message", "-p", f"#{{{variable}}}").strip()

    @property
    def shell(self) -> int:
        """The number of the shell's process."""
        return int(self.ask("pane_pid"))

    def until(self, shows: Callable[[str], object], *, pause: float = PAUSE) -> str:
        """Wait until the screen shows something, and return it; raises `AssertionError` with the last one."""
        seen = ""

        def look() -> str:
            nonlocal seen
            seen = self.screen()
            return seen

        try:
            return look_until(look, shows, pause=pause)
        except TimeoutError:
            raise AssertionError(f"after {SECONDS:.0f} s the screen still shows:\n{seen}") from None

    def until_it_says(self, *words: str) -> str:
        """Wait until all of these stand on the screen, and return it."""
        return self.until(lambda screen: all(word in screen for word in words))


@contextmanager
def open_terminal(
    directory: Path, environment: dict[str, str], size: tuple[int, int] = (120, 36)
) -> Iterator[Terminal]:
    """Open a terminal with a plain shell in it for the block."""
    terminal = Terminal(directory / "tmux")
    given = [word for name, value in environment.items() for word in ("-e", f"{name}={value}")]
    # A prompt that no file of the user's changes, so that it can be waited for.
    # Nor a size that the environment gives: the terminal's own counts.
    shell = "exec env -u COLUMNS -u LINES PS1='ready> ' ENV= sh"
    terminal.run("new-session", "-d", "-x", "120", "-y", "36", *given, shell)
    try:
        terminal.until_it_says("ready>")
        yield terminal
    finally:
        terminal.run("kill-server")
