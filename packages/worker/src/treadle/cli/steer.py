"""`treadle cancel`, `pause`, `resume`, `rerun` and `resolve`: for tasks by id or by a filter, and for queues."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

import click

from treadle.cli.show import as_json, ask, print_json, say, spelt
from treadle.cli.submit import value_of
from treadle.cli.which import TASK_ID, NotOne, explaining_filters, filter_of, full_id
from treadle.errors import InvalidArguments, JobNotFound, ProblemError, ScheduleNotFound, TaskNotFound
from treadle.wire.status import Ended
from treadle.wire.transitions import ADMITS, Action

if TYPE_CHECKING:
    from treadle.client.client import Client
    from treadle.wire.bulk import BulkResult
    from treadle.wire.filters import TaskFilter
    from treadle.wire.jobs import JobItem
    from treadle.wire.tasks import TaskItem

T = TypeVar("T")
SteeringCall = Callable[["Client", str], Awaitable[T]]

MOST_SHOWN = 10
"""The most refusals of a bulk action that are shown one by one."""

_ids = click.argument("ids", type=TASK_ID, nargs=-1, metavar="[ID]...")
_where = click.option("--where", metavar="FILTER", help="All tasks that match the filter, instead of IDs.")
_queue = click.option("--queue", "queues", multiple=True, metavar="JOB", help="A whole queue, by its job's full name.")


def _of_queues_too(function: Callable[..., None]) -> click.Command:
    """Make a command of a function that takes tasks, by their ids or a filter, or whole queues."""
    return click.command()(_ids(_where(_queue(as_json(_explained(function))))))


def _steer(action: "Action", ids: tuple[str, ...], where: str | None, *, is_json: bool, **fields: Any) -> None:
    """Apply a verb to the given tasks; every refusal is shown, and makes the exit code 1."""
    _check_one_of(ids=ids, where=where)
    if where is not None:
        _steer_where(action, _wanted(action, where), is_json=is_json, **fields)
    else:
        steer_ids(lambda client, task_id: getattr(client, action)(task_id, **fields), ids, is_json=is_json)


def _check_one_of(**given: object) -> None:
    names = {"ids": "IDs", "where": "--where", "queues": "--queue"}
    if sum(value not in ((), None) for value in given.values()) != 1:
        raise click.UsageError(f"give exactly one of {' or '.join(names[name] for name in given)}")


def _wanted(action: "Action", where: str) -> "TaskFilter":
    from treadle.filters import ordered

    if not where.strip():
        raise click.UsageError("--where: the filter is empty; status:all means every task")
    wanted = filter_of(where)
    if wanted.status is None:
        wanted = wanted.model_copy(update={"status": ordered(ADMITS[action])})
    return wanted


def steer_ids(verb: "SteeringCall[TaskItem]", ids: Sequence[str], *, is_json: bool) -> None:
    """Apply a verb to each task, by its id or the beginning of it, and print its state; a refusal exits with 1."""

    async def found(client: "Client", given: str) -> "TaskItem":
        return await verb(client, await full_id(client, given))

    steer_each(ids, found, _said_of_task, is_json=is_json)


def _said_of_task(item: "TaskItem") -> str:
    return f"{item.id} {item.status}{', asked to stop' if item.cancel_requested else ''}"


def steer_each(names: Sequence[str], verb: "SteeringCall[T]", said: Callable[[T], str], *, is_json: bool) -> None:
    """Apply a verb to each of the names, and print the result; a refusal makes the exit code 1.

    Results are printed even if the connection is lost before the last. In JSON, refusals are in the list at their
    places.
    """
    outcomes: list[T | dict[str, str | None]] = []
    has_refused = False

    async def work(client: "Client") -> None:
        nonlocal has_refused
        for name in names:
            try:
                outcomes.append(done := await verb(client, name))
            except (InvalidArguments, ProblemError, NotOne) as error:
                has_refused = True
                kind = error.problem.type if isinstance(error, ProblemError) else None
                outcomes.append({"refused": name, "type": kind, "detail": str(error)})
                # An error about something that does not exist names it already.
                is_named = isinstance(error, NotOne | TaskNotFound | JobNotFound | ScheduleNotFound)
                head = "" if is_named and name in str(error) else f"{spelt(name) or repr(name)}: "
                say(f"Error: {head}{error}", err=True)
            else:
                if not is_json:
                    say(said(done))

    try:
        ask(work)
    finally:
        if is_json and outcomes:
            print_json(outcomes)
    if has_refused:
        raise SystemExit(1)


def _steer_where(action: "Action", wanted: "TaskFilter", *, is_json: bool, **fields: Any) -> None:
    result = ask(lambda client: client.act(action, filter=wanted.model_dump(mode="json", exclude_none=True), **fields))
    print_result(action, result, is_json=is_json)


def print_result(verb: str, result: "BulkResult", *, is_json: bool) -> None:
    """Print how many tasks a bulk action has changed, and its refusals, which make the exit code 1."""
    if is_json:
        print_json(result)
    else:
        say(f"{verb}: {result.changed} of {result.matched} tasks")
    shown = [f"{problem.id}: {problem.detail}" for problem in result.problems[:MOST_SHOWN]]
    refused = result.matched - result.changed
    for error in [*shown, f"and {refused - len(shown)} more"] if refused > len(shown) else shown:
        say(f"Error: {error}", err=True)
    if refused:
        raise SystemExit(1)


def _steer_tasks_or_queues(
    action: Literal["pause", "resume"],
    ids: tuple[str, ...],
    where: str | None,
    queues: tuple[str, ...],
    *,
    is_json: bool,
) -> None:
    _check_one_of(ids=ids, where=where, queues=queues)
    if queues:
        _steer_queues(queues, is_paused=action == "pause", is_json=is_json)
    else:
        _steer(action, ids, where, is_json=is_json)


def _steer_queues(names: Sequence[str], *, is_paused: bool, is_json: bool) -> None:
    def change(client: "Client", name: str) -> "Awaitable[JobItem]":
        return client.pause_queue(name) if is_paused else client.resume_queue(name)

    steer_each(names, change, lambda item: f"{item.full_name} {'paused' if item.paused else 'open'}", is_json=is_json)


def _explained(function: Callable[..., None]) -> Callable[..., None]:
    """Add to a verb's help what an ID and a FILTER are."""
    explaining_filters(function, example="--where=-tag:x")
    id_help = "An ID may be shortened to its beginning if that is unique."
    function.__doc__ = (
        f"{function.__doc__}\nWithout a status, it selects the tasks that the verb can be applied to. {id_help}"
    )
    return function


@click.command()
@_ids
@_where
@as_json
@_explained
def cancel(ids: tuple[str, ...], *, where: str | None, is_json: bool) -> None:
    """Cancel tasks, at once."""
    _steer("cancel", ids, where, is_json=is_json)


@_of_queues_too
def pause(ids: tuple[str, ...], *, where: str | None, queues: tuple[str, ...], is_json: bool) -> None:
    """Pause tasks, or a queue.

    A running task stops with its checkpoint as soon as its worker has stopped the code. From a paused queue nothing is
    claimed; running tasks go on.
    """
    _steer_tasks_or_queues("pause", ids, where, queues, is_json=is_json)


@_of_queues_too
def resume(ids: tuple[str, ...], *, where: str | None, queues: tuple[str, ...], is_json: bool) -> None:
    """Let paused or failed tasks go on from their checkpoint, or a paused queue."""
    _steer_tasks_or_queues("resume", ids, where, queues, is_json=is_json)


@click.command()
@_ids
@_where
@click.option("--from-step", metavar="NAME", help="Keep the steps before the first of this name; only with IDs.")
@as_json
@_explained
def rerun(ids: tuple[str, ...], *, where: str | None, from_step: str | None, is_json: bool) -> None:
    """Run ended tasks again, from their start or from a step.

    From the start means without steps and messages.
    """
    if from_step is not None and where is not None:
        raise click.UsageError("--from-step: give IDs, not --where")
    _steer("rerun", ids, where, is_json=is_json, **({} if from_step is None else {"from_step": from_step}))


@click.command()
@_ids
@_where
@click.option(
    "--status", type=click.Choice(get_args(Ended)), default="completed", show_default=True, help="The task's outcome."
)
@click.option("--result", help="The result, as JSON when it parses as such.")
@click.option("--error", help="The error, for a task settled as failed.")
@as_json
@_explained
def resolve(
    ids: tuple[str, ...], *, where: str | None, status: str, result: str | None, error: str | None, is_json: bool
) -> None:
    """Settle paused or failed tasks by hand, which frees their targets."""
    if error is not None and status == "completed":
        raise click.UsageError(
            "--error: only with --status failed or cancelled; without --status the task is settled as completed"
        )
    if result is not None and status != "completed":
        raise click.UsageError(f"--result: only for a task that is settled as completed, not as {status}")
    fields: dict[str, Any] = {"status": status}
    if error is not None:
        fields["error"] = error
    if result is not None:
        fields["result"] = value_of(result)
    _steer("resolve", ids, where, is_json=is_json, **fields)
