"""What threads of a run's code see of its end, what they do together, and what no code may say."""

import math
import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Barrier, BrokenBarrierError
from types import SimpleNamespace
from typing import Any

import pytest

from treadle import Context
from treadle.tasks.outcomes import Interrupted

THREADS = 8


def _context() -> Context:
    return Context({"run_id": 0, "payload": {}}, None)  # type: ignore[arg-type]


@pytest.mark.parametrize("number", range(20))
def test_every_thread_that_waits_sees_the_run_stop_whenever_it_began_to_wait(number: int) -> None:
    """L4."""
    context, start = _context(), Barrier(THREADS + 1)

    def wait() -> bool:
        start.wait(30)
        return context.wait_cancelled(30)

    with ThreadPoolExecutor(THREADS) as threads:
        seen = [threads.submit(wait) for _ in range(THREADS)]
        start.wait(30)
        context.stop()
        assert [one.result(60) for one in seen] == [True] * THREADS
    assert context.cancelled
    assert context.wait_cancelled(0)
    with pytest.raises(Interrupted):
        context.raise_if_cancelled()


def test_who_waits_for_a_run_that_goes_on_is_told_so() -> None:
    """L4."""
    context = _context()
    assert not context.wait_cancelled(0)
    assert not context.cancelled
    context.raise_if_cancelled()
    context.stop()
    assert context.wait_cancelled(0)


def test_who_comes_when_the_run_was_stopped_waits_for_nothing() -> None:
    """L4."""
    context = _context()
    context.stop()
    assert context.wait_cancelled(0)


class Array(list[float]):
    """Compares as one of numpy's does, which is no number when it has one element, and has no truth with several."""

    def __le__(self, most: Any) -> "Array":
        return Array(number <= most for number in self)

    def __ge__(self, least: Any) -> "Array":
        return Array(number >= least for number in self)

    def __bool__(self) -> bool:
        if len(self) > 1:
            raise ValueError("The truth value of an array with more than one element is ambiguous.")
        return bool(self[0])

    def __float__(self) -> float:
        raise TypeError("only 0-dimensional arrays can be converted to Python scalars")


@pytest.mark.parametrize("odd", ["half done", 2e15, -0.1, math.nan, [0.5], Array([0.5]), Array([0.2, 0.5])], ids=str)
def test_what_is_no_share_and_no_amount_is_refused_by_what_it_is(odd: Any) -> None:
    """Of a message in the share's place it was said that '<=' is not supported between int and str."""
    told = re.escape(repr(odd))

    with pytest.raises(ValueError, match=f"^progress takes a share between 0 and 1 \\(and message=\\), not {told}$"):
        _context().progress(odd)
    with pytest.raises(ValueError, match=rf"^usage must be at least 0, and 1e\+15 at most in all, not {told}$"):
        _context().spend(odd)


def test_what_two_threads_spend_at_the_same_time_is_spent_by_both() -> None:
    """L4."""
    told: list[float] = []
    context = Context({"run_id": 0, "payload": {}}, SimpleNamespace(spend=told.append))  # type: ignore[arg-type]
    met = Barrier(2)

    class Amount(float):
        """Added when both threads have begun to add theirs, or can't both have."""

        def __float__(self) -> float:
            with suppress(BrokenBarrierError):
                met.wait(0.2)
            return float.__add__(self, 0.0)

    with ThreadPoolExecutor(2) as threads:
        for one in [threads.submit(context.spend, Amount(amount)) for amount in (1.0, 2.0)]:
            one.result(60)

    assert told[-1] == 3.0
