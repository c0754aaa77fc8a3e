"""Standard input, output and error of a process that may have been started without them."""

import os


def open_what_is_closed() -> None:
    """Open what is closed of them, to lead nowhere: what is opened first would be in their place.

    Lines of a log would be written into a database or a socket, and uvloop ends the process (`uv__close: Assertion`)
    when it closes a file of its own that has one of their numbers.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # The lowest number that is free: this one.
            os.open(os.devnull, os.O_RDWR)
