"""The item of a submit as it is sent, made from a task with its arguments and options, and checks of the input."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from treadle.client.bound import Bound
from treadle.client.options import Options, as_options
from treadle.errors import InvalidArguments
from treadle.ids import new_task_id
from treadle.wire.names import GLOBAL, SHARED_ROOMS, InvalidJobName, JobName, parse_job_name

R = TypeVar("R")


def item_of(
    job: str, payload: dict[str, Any], options: Options | None, arguments_from: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return the item of a submit. Raises `InvalidArguments` for invalid options.

    The client chooses the id, so that a submit whose answer was lost can be repeated.
    """
    item: dict[str, Any] = {"id": new_task_id(), "job": job, "payload": payload}
    if arguments_from:
        item["arguments_from"] = dict(arguments_from)
    return item if options is None else item | as_options(options).wire()


def job_named(job: str) -> JobName:
    """Return a job's name in its parts. Raises `InvalidArguments` for an invalid name."""
    try:
        return parse_job_name(job)
    except InvalidJobName as error:
        raise InvalidArguments(str(error)) from None


def check_bound(bound: object) -> None:
    """Raise `InvalidArguments` for anything that is not `task.bind(…)`."""
    if hasattr(bound, "bind") and isinstance(job := getattr(bound, "job", None), JobName):
        raise InvalidArguments(f"{bound!r} has no arguments: submit {job.name}.bind(…)")
    if not isinstance(bound, Bound):
        raise InvalidArguments(f"submit task.bind(…), not {bound!r}: a plain call runs the function in this process")


def check_task(task: object) -> None:
    """Raise `InvalidArguments` for anything that was not made by `@task`."""
    if not isinstance(getattr(task, "job", None), JobName):
        raise InvalidArguments(f"{task!r} is not a task: decorate its function with @task")


def checked_bounds(bounds: Iterable[Bound[R]]) -> list[Bound[R]]:
    """Return the tasks of `submit_many` as a list. Raises `InvalidArguments` if it isn't one, or one isn't bound."""
    if not isinstance(bounds, Iterable):
        raise InvalidArguments(f"submit_many takes a list of task.bind(…), not {bounds!r}: submit takes one")
    given = list(bounds)
    for bound in given:
        check_bound(bound)
    return given


def over(options: Options | None, base: Options | None) -> Options | None:
    """Return the options over those of `base`; None without either. Raises `InvalidArguments` for anything else."""
    return base if options is None else as_options(options).over(base)


def common_room(bounds: Sequence[Bound[Any]]) -> str:
    """Return the room to submit these tasks from; raise `InvalidArguments` when they are of several rooms."""
    rooms = {bound.task.job.room for bound in bounds}
    own = rooms - SHARED_ROOMS
    if len(own) > 1:
        raise InvalidArguments(
            f"the tasks are of several rooms ({', '.join(sorted(own))}): submit each room's tasks separately"
        )
    return next(iter(own or rooms), GLOBAL)
