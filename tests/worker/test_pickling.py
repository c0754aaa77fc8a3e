"""Exceptions and pages go to other processes, and are copied, as they are."""

import copy
import pickle
from collections.abc import Callable
from datetime import timedelta
from multiprocessing import get_context
from typing import Any

import pytest

from treadle import Pause, Retry, SyncClient, TaskFailed, errors, task
from treadle.errors import ConnectionLost, SocketRefused, TaskNotFound, TreadleError, problem_named
from treadle.filters import FilterError
from treadle.tasks.outcomes import Suspend


class OutOfPaper(Retry):
    """A user's own, whose constructor takes something else than the one that it comes from."""

    def __init__(self, *, sheets: int) -> None:
        super().__init__(60.0, f"{sheets} sheets are missing")
        self.sheets = sheets


def problem(name: str) -> TreadleError:
    return errors.error_for(problem_named(name, "it says why"))


EVERY = [
    *(problem(name) for name in errors.BY_NAME),
    TaskFailed("it failed", {"id": "a task's last state"}),  # type: ignore[arg-type]
    ConnectionLost("the connection broke"),
    SocketRefused("it opens no websocket", is_silent=True),
    FilterError("unclosed quote", 3),
    Retry(timedelta(minutes=1)),
    Retry(message="later"),
    Pause("enough", checkpoint={"page": 3}),
    OutOfPaper(sheets=3),
    Suspend("sleep", 1, 60.0, receives=False),
]


def pickled(error: BaseException) -> Any:
    return pickle.loads(pickle.dumps(error))


@pytest.mark.parametrize("again", [pickled, copy.copy, copy.deepcopy])
@pytest.mark.parametrize("error", EVERY, ids=repr)
def test_an_exception_is_read_again_as_it_was(error: BaseException, again: Callable[[Any], Any]) -> None:
    read = again(error)

    assert type(read) is type(error)
    assert (str(read), read.args, read.__dict__) == (str(error), error.args, error.__dict__)


REFUSED = """
from treadle.errors import TaskNotFound, problem_named
raise TaskNotFound(problem_named("task-not-found", "no such task"))
"""


def test_a_pool_of_processes_is_told_what_a_call_raised() -> None:
    """It waited for ever, for the thread that reads what its processes answer had ended at it."""
    with get_context("spawn").Pool(1) as pool, pytest.raises(TaskNotFound, match="no such task") as caught:
        pool.apply_async(exec, [REFUSED]).get(timeout=60)  # what the other process needs no module of the tests for

    assert caught.value.problem.status == 404


@task
def double(n: int) -> int:
    return 2 * n


def test_a_page_of_a_blocking_client_goes_to_other_processes_by_itself(treadle_client: SyncClient) -> None:
    ids = [treadle_client.submit(double.bind(n)).id for n in range(3)]
    page = treadle_client.list(limit=2)

    read = pickled(page)

    assert [item.id for item in read] == [item.id for item in page.items] == ids[:0:-1]
    assert (read.total, read.next_cursor) == (3, page.next_cursor)


def test_a_page_of_either_client_is_read_again_as_it_was(treadle_client: SyncClient) -> None:
    """One of `Client` said that `Page[TaskItem]` is found nowhere."""
    treadle_client.submit(double.bind(1))
    page = treadle_client.run(treadle_client.client.list().page())

    assert pickled(page) == page
