"""Exceptions that keep their attributes when they are sent to other processes or copied."""

from typing import Any


class Picklable(BaseException):
    """An exception that is unpickled without its constructor, which takes other arguments than the text in `args`.

    One that can't be unpickled does great harm: a `multiprocessing.Pool` waits for ever for the call that raised it,
    and an executor gives up its processes with all that they run.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (type(self), self.args), self.__dict__


def _again(kind: type[BaseException], args: tuple[Any, ...]) -> BaseException:
    error = kind.__new__(kind, *args)
    # System exceptions with a constructor of their own only take their text here.
    error.args = args
    return error
