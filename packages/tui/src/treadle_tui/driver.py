"""A terminal driver for Textual that can be stopped and resumed safely."""

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
"""How often the input thread checks whether to end."""

MOST_BYTES = 4096
"""The most bytes that are read at once."""


class TerminalDriver(LinuxDriver):
    """Suspends and resumes from within the event loop, with one input thread and one writer thread.

    Textual's own driver does both inside the signal handler, wherever the process happens to be. If that is in the
    middle of a write, the dashboard deadlocks on the lock of its output. It also starts at each SIGCONT what it ends
    only at SIGTSTP. A process that was stopped by SIGSTOP, or that is sent SIGCONT twice (by the shell's `fg` and by
    the guard), then has two threads that read the same keys: one takes a key, the other waits for it for ever, and the
    dashboard never exits.
    """

    def __init__(
        self, app: App[object], *, debug: bool = False, mouse: bool = True, size: tuple[int, int] | None = None
    ) -> None:
        """Take the same arguments as Textual's driver. Needs a running loop."""
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        # Textual draws on stderr, even when stderr is redirected to a log file.
        if sys.__stdout__ is not None and sys.__stdout__.isatty():
            self._file = sys.__stdout__
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTSTP, self._sigtstp_application)
        loop.add_signal_handler(signal.SIGCONT, self._sigcont_application)

    def _get_terminal_size(self) -> tuple[int, int]:
        """Return the size that the terminal reports: COLUMNS and LINES are as old as their export."""
        told = os.get_terminal_size(self.fileno) if os.isatty(self.fileno) else (0, 0)
        return told if all(told) else super()._get_terminal_size()

    @property
    def is_behind(self) -> bool:
        """Whether the terminal has yet to take what was drawn before."""
        return self._writer_thread is not None and not self._writer_thread._queue.empty()  # noqa: SLF001 - nothing public tells

    def start_application_mode(self) -> None:
        """Set up the terminal, after ending the threads that may still be running."""
        modes = self.attrs_before
        self._end_threads()
        super().start_application_mode()  # type: ignore[no-untyped-call]
        # Keep the modes from before the dashboard started; super() has just read the dashboard's own.
        self.attrs_before = modes or self.attrs_before

    def _end_threads(self) -> None:
        """End the threads without losing keys that have been read."""
        if self._key_thread is not None and self._key_thread.is_alive():
            self.exit_event.set()
            self._key_thread.join()
            self.exit_event.clear()
            if self._writer_thread is not None:
                self._writer_thread.stop()

    def run_input_thread(self) -> None:
        """Read input until the dashboard ends. Bytes that are not valid text or keys do not end the thread."""
        parser, typed = XTermParser(self._debug), Typed()
        while not self.exit_event.is_set():
            self._read(parser, typed, LOOK_SECONDS)
        # Take what was typed until now.
        self._read(parser, typed, 0)

    def _read(self, parser: XTermParser, typed: Typed, seconds: float) -> None:
        ready, _, _ = select.select([self.fileno], [], [], seconds)
        data = os.read(self.fileno, MOST_BYTES) if ready else b""
        if ready and not data:
            # The terminal is gone, so select() returns at once from now on: wait here instead of spinning.
            self.exit_event.wait(seconds)
        # The parser takes an empty text for the end of input.
        text = typed.read(data)
        for event in (*(parser.feed(text) if text else ()), *parser.tick()):
            self.process_message(event)
