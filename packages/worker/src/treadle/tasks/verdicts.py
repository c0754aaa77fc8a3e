"""Which exceptions of a task's code are worth another attempt: `@task(retry_on=…, fail_on=…)`."""

from collections.abc import Iterator
from dataclasses import dataclass

from treadle.errors import DefinitionError
from treadle.tasks.outcomes import TaskOutcome
from treadle.values import asked, said_by

Exceptions = type[BaseException] | tuple[type[BaseException], ...]
"""An exception class, or several."""


@dataclass(frozen=True, slots=True)
class Verdicts:
    """A task's rules for exceptions; a class stands for its subclasses too."""

    retry_on: tuple[type[BaseException], ...] | None = None
    """Only after these the task is retried; None: after all."""
    fail_on: tuple[type[BaseException], ...] = ()
    """After these it is never retried."""

    @classmethod
    def of(cls, function: str, retry_on: Exceptions | None, fail_on: Exceptions | None) -> "Verdicts":
        """Return the rules that the decorator of `function` gives. Raises `DefinitionError` for an invalid class."""
        made = cls(
            None if retry_on is None else _classes(function, "retry_on", retry_on),
            () if fail_on is None else _classes(function, "fail_on", fail_on),
        )
        if both := set(made.retry_on or ()) & set(made.fail_on):
            names = ", ".join(sorted(one.__name__ for one in both))
            raise DefinitionError(
                f"@task of {function} has {names} both in retry_on and in fail_on: keep it in one of them"
            )
        return made

    def is_final(self, error: BaseException) -> bool:
        """Return whether the task is not to be retried after the error.

        If both lists contain a base of its class, the nearer one counts: `retry_on=OSError, fail_on=FileNotFoundError`
        means what it seems to. A group is final if one of its errors is. The lists do not apply to outcomes such as
        `Retry`.
        """
        if self.retry_on is None and not self.fail_on:
            return False
        return any(self._ends_it(one) for one in leaves_of(error))

    def _ends_it(self, error: BaseException) -> bool:
        if isinstance(error, TaskOutcome):
            return False
        for kind in type(error).__mro__:
            if kind in self.fail_on:
                return True
            if self.retry_on is not None and kind in self.retry_on:
                return False
        return self.retry_on is not None


def leaves_of(error: BaseException) -> Iterator[BaseException]:
    """Yield the exceptions in a group that are not groups, at any depth, in order; yield any other exception itself."""
    left = [error]
    while left:
        one = left.pop()
        if isinstance(one, BaseExceptionGroup):
            left.extend(reversed(one.exceptions))
        else:
            yield one


class Illegible(Exception):
    """Stands for an exception whose class can't even answer what it is."""


def legible(error: BaseException) -> BaseException:
    """Return the error, or a stand-in if inspecting it, or an error within it, raises something else.

    Code that catches an exception inspects it first: `isinstance` reads `__class__`, and an error raised by that would
    end the worker instead of the run.
    """

    def read() -> BaseException:
        for one in leaves_of(error):
            _ = one.__class__, one.__traceback__, one.__cause__, one.__context__
        return error

    def stand_in(odd: BaseException) -> BaseException:
        told = f"{type(error).__name__}, which can't be read ({type(odd).__name__}: {said_by(odd)})"
        return Illegible(told).with_traceback(BaseException.__getattribute__(error, "__traceback__"))

    return asked(read, stand_in)


def _classes(function: str, name: str, given: Exceptions) -> tuple[type[BaseException], ...]:
    found = given if isinstance(given, tuple) else (given,)
    for one in found:
        if not (isinstance(one, type) and issubclass(one, BaseException)):
            raise DefinitionError(
                f"@task of {function}: {name} takes classes of exceptions, one or a tuple of them, not {one!r}"
            )
        if issubclass(one, TaskOutcome):
            raise DefinitionError(f"@task of {function}: {name} can't change what {one.__name__} means")
    return found
