"""The terminal as Textual drives it, also when the dashboard was stopped and goes on."""

import asyncio
import signal
import sys

from textual.app import App
from textual.drivers.linux_driver import LinuxDriver


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
