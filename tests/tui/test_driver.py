"""The driver of a terminal knows whether the terminal keeps up."""

import io
from types import SimpleNamespace

from textual.drivers._writer_thread import WriterThread

from treadle_tui.driver import TerminalDriver


def test_a_terminal_is_behind_while_something_is_still_to_be_written_to_it() -> None:
    writer = WriterThread(io.StringIO())
    driver = SimpleNamespace(_writer_thread=writer)
    told = [TerminalDriver.is_behind.fget(SimpleNamespace(_writer_thread=None))]  # type: ignore[attr-defined]

    writer.write("drawn")
    told.append(TerminalDriver.is_behind.fget(driver))  # type: ignore[attr-defined]
    writer.start()
    writer.stop()
    told.append(TerminalDriver.is_behind.fget(driver))  # type: ignore[attr-defined]

    assert told == [False, True, False]
