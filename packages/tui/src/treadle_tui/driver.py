"""The terminal as Textual drives it, also when the dashboard was stopped and goes on."""

import asyncio
import os
import select
import signal
import sys

from textual._xterm_parser import XTermParser
from textual.app import App
from textual.drivers.linux_driver import LinuxDriver

from treadle_tui.typed import Typed

LOOK_SECONDS = 0.1
"""How often the thread that reads keys looks whether it is to end."""

MOST_BYTES = 4096
"""Bytes that are read at once."""


class TerminalDriver(LinuxDriver):
    """Stops and goes on from within the loop, with one thread that reads keys and one that writes.

    Textual's own does both in the midst of whatever the process was about: where that was to write, the dashboard hangs
    at the lock of what is to be written. And it begins at each SIGCONT what it ends at a SIGTSTP alone: a process that
    was stopped by force, or is told twice that it goes on, as by a shell's `fg` and by the guard, has two threads that
    read the same keys: one takes a key, the other waits for it for ever, and so does the end of the dashboard.
    """

    def __init__(
        self, app: App[object], *, debug: bool = False, mouse: bool = True, size: tuple[int, int] | None = None
    ) -> None:
        """Take the arguments of Textual's, in a running loop."""
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        # Textual draws on stderr, also where that is a file that gathers what is complained of.
        if sys.__stdout__ is not None and sys.__stdout__.isatty():
            self._file = sys.__stdout__
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTSTP, self._sigtstp_application)
        loop.add_signal_handler(signal.SIGCONT, self._sigcont_application)

    def _get_terminal_size(self) -> tuple[int, int]:
        """Return its width and height as it tells them itself: COLUMNS and LINES are of when they were exported."""
        told = os.get_terminal_size(self.fileno) if os.isatty(self.fileno) else (0, 0)
        return told if all(told) else super()._get_terminal_size()

    def start_application_mode(self) -> None:
        """Set the terminal up; what is under way already is ended before."""
        modes = self.attrs_before
        self._end_threads()
        super().start_application_mode()  # type: ignore[no-untyped-call]
        # Those that the dashboard found when it began, not its own.
        self.attrs_before = modes or self.attrs_before

    def _end_threads(self) -> None:
        """End the threads, and lose no key that was read."""
        if self._key_thread is not None and self._key_thread.is_alive():
            self.exit_event.set()
            self._key_thread.join()
            self.exit_event.clear()
            if self._writer_thread is not None:
                self._writer_thread.stop()

    def run_input_thread(self) -> None:
        """Read what is typed until the dashboard ends; what is no text, and no key, ends nothing."""
        parser, typed = XTermParser(self._debug), Typed()
        while not self.exit_event.is_set():
            self._read(parser, typed, LOOK_SECONDS)
        # What was typed until now counts.
        self._read(parser, typed, 0)

    def _read(self, parser: XTermParser, typed: Typed, seconds: float) -> None:
        ready, _, _ = select.select([self.fileno], [], [], seconds)
        data = os.read(self.fileno, MOST_BYTES) if ready else b""
        if ready and not data:
            # The terminal is gone, and that there is nothing to read is told at once from now on.
            self.exit_event.wait(seconds)
        # To the parser an empty text is the end of all.
        text = typed.read(data)
        for event in (*(parser.feed(text) if text else ()), *parser.tick()):
            self.process_message(event)
