"""Keeps the terminal usable, whatever ends the dashboard.

The dashboard runs in a child; a small parent waits for it. A child that is killed outright restores nothing, so the
parent gives the terminal its modes back and leaves the alternate screen. A parent that is killed closes a pipe by its
death, at which the child ends in good order. Only when both are killed at once is `reset` needed.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress

RESTORE = (
    "\x1b[?2026l"  # draw at once again
    "\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1015l\x1b[?1006l\x1b[?1016l"  # no mouse
    "\x1b[?1004l\x1b[?2004l\x1b[?2048l\x1b[<u"  # no focus, paste, resize or keyboard reports
    "\x1b[?1049l"  # back to the shell's screen
    "\x1b[?25h\x1b[0m"  # a cursor, and no colours
)
"""Undoes all that the dashboard asks of a terminal; what was not asked for is not harmed by it."""

PASSED_ON = (signal.SIGTERM, signal.SIGHUP) if hasattr(signal, "SIGHUP") else ()
"""What the parent is told and passes on. What comes while there is no child yet waits until there is."""

GRACE_SECONDS = 3.0
"""How long the dashboard may take to end when it is told to. Without its terminal it may never: a write to one that is
closed fails in Textual's thread, and the next ones wait for that thread for ever."""


def is_on_terminal() -> bool:
    """Return whether keys can be read and a screen be drawn here: a dumb terminal shows what is to move its cursor."""
    # Python has None where a descriptor was closed before it began.
    is_whole = all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout))
    return is_whole and os.environ.get("TERM") != "dumb"


def has_shell() -> bool:
    """Return whether a shell with jobs began this process: it has a group of its own there, which can be woken."""
    return hasattr(os, "getsid") and os.getpgrp() != os.getsid(0)


def guarded(show: Callable[[], int]) -> int:
    """Run `show` in a child that is watched, and return its exit code; 128 and the signal's number when one ended it.

    Without a terminal, or where there is no fork, it runs here. In the child this returns too, with the code of `show`.
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
    # Not inherited by anything else: its end must tell of this process alone.
    os.set_inheritable(write_end, False)
    status = _attend(child)
    # A terminal that is gone has nothing to restore.
    with suppress(termios.error):
        termios.tcsetattr(sys.stdin.fileno(), termios.TCSAFLUSH, modes)
    if not os.WIFSIGNALED(status):
        return os.waitstatus_to_exitcode(status)
    number = os.WTERMSIG(status)
    os.write(sys.stdout.fileno(), RESTORE.encode())
    name = signal.Signals(number).name
    sys.stderr.write(f"The dashboard was ended by {name}; the terminal is as it was before. The server goes on.\n")
    return 128 + number


def _outlive(pipe: int) -> None:
    """Wait for the parent's death, and end this process then: in good order if it still can."""
    os.read(pipe, 1)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_SECONDS)
    # The thread dies with the process: whoever comes here is stuck.
    os._exit(128 + signal.SIGTERM)


def _attend(child: int) -> int:
    """Wait for the child's end and return its status; signals go on to it, and a child that stops stops its parent."""
    for number in (signal.SIGINT, signal.SIGQUIT):
        # The terminal sends these to both; the child knows what to do.
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, lambda *_: _pass_on(child, signal.SIGKILL))
    for number in PASSED_ON:
        signal.signal(number, lambda received, _: _end(child, received))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
    while True:
        _, status = os.waitpid(child, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            return status
        # As one job to the shell: `fg` wakes both.
        os.kill(os.getpid(), signal.SIGSTOP)
        _pass_on(child, signal.SIGCONT)


def _end(child: int, number: int) -> None:
    """Tell the child to end; one that doesn't, because it is stuck in a write to its terminal, is killed."""
    _pass_on(child, number)
    signal.setitimer(signal.ITIMER_REAL, GRACE_SECONDS)


def _pass_on(child: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(child, number)
