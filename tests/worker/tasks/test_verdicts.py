"""After which exceptions a task is tried again: `@task(retry_on=…, fail_on=…)`."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.worker import jobs
from treadle import Client, Retry, TaskFailed, task
from treadle.errors import DefinitionError
from treadle.tasks.verdicts import Exceptions, Verdicts

pytestmark = pytest.mark.anyio


def both(*errors: Exception) -> ExceptionGroup:
    return ExceptionGroup("several", list(errors))


@pytest.mark.parametrize(
    ("retry_on", "fail_on", "error", "is_final"),
    [
        (None, None, ValueError(), False),
        (OSError, None, OSError(), False),
        (OSError, None, ConnectionResetError(), False),
        (OSError, None, ValueError(), True),
        ((OSError, ValueError), None, UnicodeError(), False),
        ((), None, ValueError(), True),
        (None, ValueError, ValueError(), True),
        (None, ValueError, UnicodeError(), True),
        (None, ValueError, OSError(), False),
        (OSError, FileNotFoundError, FileNotFoundError(), True),
        (OSError, FileNotFoundError, PermissionError(), False),
        (FileNotFoundError, OSError, FileNotFoundError(), False),
        (FileNotFoundError, OSError, PermissionError(), True),
        (OSError, None, both(OSError(), ConnectionError()), False),
        (OSError, None, both(OSError(), both(ValueError())), True),
        (None, ValueError, both(OSError(), ValueError()), True),
        (OSError, None, Retry(), False),
        (None, Exception, Retry(), False),
        (None, SystemExit, SystemExit(), True),
    ],
)
def test_the_nearest_class_decides(
    retry_on: Exceptions | None, fail_on: Exceptions | None, error: BaseException, is_final: bool
) -> None:
    assert Verdicts.of("f", retry_on, fail_on).is_final(error) is is_final


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"retry_on": "ValueError"}, "classes of exceptions"),
        ({"fail_on": [ValueError]}, "classes of exceptions"),
        ({"fail_on": (ValueError, int)}, "classes of exceptions"),
        ({"retry_on": Retry}, "can't change what Retry means"),
        ({"retry_on": (OSError, ValueError), "fail_on": ValueError}, "ValueError both in retry_on and in fail_on"),
    ],
)
def test_what_is_no_class_of_exceptions_is_refused_where_it_is_written(options: dict[str, Any], said: str) -> None:
    with pytest.raises(DefinitionError, match=said):
        task(**options)(lambda: None)


@task(max_retries=2, retry_base=0, retry_on=ConnectionError)
async def in_the_loop(error: str) -> None:
    raise {"key": KeyError("gone"), "connection": ConnectionError("no")}[error]


@task(max_retries=2, retry_base=0, fail_on=(KeyError, TypeError))
def in_a_thread(error: str) -> None:
    raise {"key": KeyError("gone"), "connection": ConnectionError("no")}[error]


@pytest.mark.parametrize("function", [in_the_loop, in_a_thread, jobs.raises], ids=["async", "thread", "process"])
async def test_a_final_error_costs_one_run_and_another_all_retries(
    client: Client, working: Callable[..., Any], function: Any
) -> None:
    async with working(function):
        handles = [await function.submit(error=error) for error in ("key", "connection")]
        results = await asyncio.gather(*(handle.result(timeout=60) for handle in handles), return_exceptions=True)

    final, spent = (one.task for one in results if isinstance(one, TaskFailed))
    assert (final.run_id, final.reason, final.error) == (0, "internal-error", "KeyError: 'gone'")
    assert (spent.run_id, spent.error) == (2, "ConnectionError: no")
    [run] = await handles[0].runs()
    assert "raise" in run.traceback
