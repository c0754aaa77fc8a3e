"""`treadle cancel`, `pause`, `resume`, `rerun` and `resolve`."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import click

from treadle.cli.show import as_json, open_client, print_json, run
from treadle.cli.submit import value_of

if TYPE_CHECKING:
    from treadle.client import Client
    from treadle.wire.tasks import TaskItem

Verb = Callable[["Client", str], Awaitable["TaskItem"]]

_ids = click.argument("ids", nargs=-1, required=True, metavar="ID...")


def _steer(ids: tuple[str, ...], verb: Verb, *, is_json: bool) -> None:
    """Apply a verb to each task; every refusal is shown, and any makes the exit code 1."""
    done, errors = run(_each(ids, verb))
    if is_json:
        print_json(done)
    else:
        for item in done:
            click.echo(f"{item.id} {item.status}")
    for task_id, error in errors:
        click.echo(f"Error: {task_id}: {error}", err=True)
    if errors:
        raise SystemExit(1)


async def _each(ids: tuple[str, ...], verb: Verb) -> "tuple[list[TaskItem], list[tuple[str, Exception]]]":
    from treadle.errors import ProblemError

    done: list[TaskItem] = []
    errors: list[tuple[str, Exception]] = []
    async with open_client() as client:
        for task_id in ids:
            try:
                done.append(await verb(client, task_id))
            except ProblemError as error:
                errors.append((task_id, error))
    return done, errors


@click.command()
@_ids
@as_json
def cancel(ids: tuple[str, ...], *, is_json: bool) -> None:
    """Cancel tasks, at once."""
    _steer(ids, lambda client, task_id: client.cancel(task_id), is_json=is_json)


@click.command()
@_ids
@as_json
def pause(ids: tuple[str, ...], *, is_json: bool) -> None:
    """Pause tasks; a running one stops with its checkpoint as soon as its worker has stopped the code."""
    _steer(ids, lambda client, task_id: client.pause(task_id), is_json=is_json)


@click.command()
@_ids
@as_json
def resume(ids: tuple[str, ...], *, is_json: bool) -> None:
    """Let paused or failed tasks go on from their checkpoint."""
    _steer(ids, lambda client, task_id: client.resume(task_id), is_json=is_json)


@click.command()
@_ids
@as_json
def rerun(ids: tuple[str, ...], *, is_json: bool) -> None:
    """Run ended tasks again, from their start."""
    _steer(ids, lambda client, task_id: client.rerun(task_id), is_json=is_json)


@click.command()
@_ids
@click.option(
    "--status", type=click.Choice(["completed", "failed", "cancelled"]), default="completed", show_default=True
)
@click.option("--result", help="The result, as JSON when it parses as such.")
@click.option("--error", help="The error, for a task settled as failed.")
@as_json
def resolve(ids: tuple[str, ...], *, status: str, result: str | None, error: str | None, is_json: bool) -> None:
    """Settle paused or failed tasks by hand, which frees their targets."""
    fields: dict[str, Any] = {"status": status, "error": error}
    if result is not None:
        fields["result"] = value_of(result)
    _steer(ids, lambda client, task_id: client.resolve(task_id, **fields), is_json=is_json)
