"""Exceptions that go to other processes, and are copied, as they are."""

from typing import Any


class Picklable(BaseException):
    """Is read again without its constructor, which takes something else than the text that `args` has.

    One that can't be read again ends more than itself: a `multiprocessing.Pool` waits for ever for the call that raised
    it, and an executor's processes are given up with all that they run.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (type(self), self.args), self.__dict__


def _again(kind: type[BaseException], args: tuple[Any, ...]) -> BaseException:
    error = kind.__new__(kind, *args)
    # Those of the system's that have a constructor of their own take their text there.
    error.args = args
    return error
