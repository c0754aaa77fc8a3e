"""Keeps the terminal usable, whatever ends the dashboard.

The dashboard runs in a child process while a small parent waits for it. A child that is killed restores nothing, so the
parent resets the terminal's modes and leaves the alternate screen. If the parent is killed, a pipe closes, and the
child exits cleanly. Only when both are killed at once does the user have to run `reset`.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress

RESTORE = (
    "\x1b[?2026l"  # end synchronised output
    "\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1015l\x1b[?1006l\x1b[?1016l"  # no mouse reports
    "\x1b[?1004l\x1b[?2004l\x1b[?2048l\x1b[<u"  # no focus, paste, resize or keyboard reports
    "\x1b[?1049l"  # back to the shell's screen
    "\x1b[?25h\x1b[0m"  # a cursor, and no colours
)
"""Undoes every mode that the dashboard sets; harmless for a terminal where they were not set."""

PASSED_ON = (signal.SIGTERM, signal.SIGHUP) if hasattr(signal, "SIGHUP") else ()
"""Signals that the parent passes on to the child. They are blocked until the child exists."""

GRACE_SECONDS = 3.0
"""How long the dashboard may take to exit when told to. Without its terminal it may never exit: a write to a closed
terminal fails in Textual's writer thread, and later writes wait for that thread for ever."""


def is_on_terminal() -> bool:
    """Return whether keys can be read and a screen drawn here: a dumb terminal prints cursor movements as text."""
    # Python sets a stream to None if its descriptor was closed before Python started.
    is_whole = all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout))
    return is_whole and os.environ.get("TERM") != "dumb"


def has_shell() -> bool:
    """Return whether a shell with job control started this process: only then can a stopped dashboard be resumed."""
    return hasattr(os, "getsid") and os.getpgrp() != os.getsid(0)


def guarded(show: Callable[[], int]) -> int:
    """Run `show` in a guarded child and return its exit code, or 128 plus the number of the signal that killed it.

    Without a terminal or `fork`, `show` runs in this process. In the child, this function also returns, with `show`'s
    code.
    """
    if not (hasattr(os, "fork") and is_on_terminal()):
        return show()
    import termios

    modes = termios.tcgetattr(sys.stdin.fileno())
    read_end, write_end = os.pipe()
    signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)
    child = os.fork()
    if child == 0:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
        os.close(write_end)
        threading.Thread(target=_outlive, args=(read_end,), name="treadle-guard", daemon=True).start()
        return show()
    os.close(read_end)
    # No other process may inherit this end: its closing must mean that this process is gone.
    os.set_inheritable(write_end, False)
    status = _attend(child)
    # A terminal that is gone can't be restored.
    with suppress(termios.error):
        termios.tcsetattr(sys.stdin.fileno(), termios.TCSAFLUSH, modes)
    if not os.WIFSIGNALED(status):
        return os.waitstatus_to_exitcode(status)
    number = os.WTERMSIG(status)
    os.write(sys.stdout.fileno(), RESTORE.encode())
    name = signal.Signals(number).name
    sys.stderr.write(f"The dashboard was ended by {name}; the terminal has been restored. The server keeps running.\n")
    return 128 + number


def _outlive(pipe: int) -> None:
    """Wait until the parent dies, then end this process: cleanly if that is still possible."""
    os.read(pipe, 1)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_SECONDS)
    # A clean exit would have ended this thread by now: the process is stuck.
    os._exit(128 + signal.SIGTERM)


def _attend(child: int) -> int:
    """Wait for the child and return its status. Pass signals on to it, and stop this process when the child stops."""
    for number in (signal.SIGINT, signal.SIGQUIT):
        # The terminal sends these to both processes, and the child handles them.
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, lambda *_: _pass_on(child, signal.SIGKILL))
    for number in PASSED_ON:
        signal.signal(number, lambda received, _: _end(child, received))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
    while True:
        _, status = os.waitpid(child, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            return status
        # Stop with the child, as one job of the shell: `fg` resumes both.
        os.kill(os.getpid(), signal.SIGSTOP)
        _pass_on(child, signal.SIGCONT)


def _end(child: int, number: int) -> None:
    """Tell the child to exit, and kill it if it doesn't, as when it is stuck writing to its terminal."""
    _pass_on(child, number)
    signal.setitimer(signal.ITIMER_REAL, GRACE_SECONDS)


def _pass_on(child: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(child, number)
