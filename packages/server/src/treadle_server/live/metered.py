"""Measures how much of the event loop's time a coroutine takes, without the time it waits."""

from collections.abc import Coroutine, Generator
from time import thread_time
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Metered(Generic[T]):
    """Awaited, it runs a coroutine to its end; `seconds` is then the processor time that its steps took in this thread.

    Between its steps other coroutines run: on a busy loop a read of 3 ms takes a tenth of a second.
    """

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self._work = work
        self.seconds = 0.0

    def __await__(self) -> Generator[Any, Any, T]:
        """Run it, and return what it returns; raises what it raises."""
        sent: Any = None
        thrown: BaseException | None = None
        try:
            while True:
                began = thread_time()
                try:
                    awaited = self._work.send(sent) if thrown is None else self._work.throw(thrown)
                except StopIteration as ended:
                    return ended.value  # type: ignore[no-any-return]
                finally:
                    self.seconds += thread_time() - began
                sent, thrown = None, None
                try:
                    sent = yield awaited
                except GeneratorExit:
                    raise
                except BaseException as error:  # noqa: BLE001 - passed on to the coroutine, which was waiting
                    thrown = error
        finally:
            self._work.close()
