"""`treadle prune`: removes ended tasks whose retention is over, or says what would be removed."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, get_args

import click

from treadle.cli.show import as_json, ask, print_json, print_table, say
from treadle.cli.task_options import Age
from treadle.wire.amounts import counted
from treadle.wire.status import Ended

if TYPE_CHECKING:
    from treadle.client.client import Client
    from treadle.wire.prune import PruneAnswer


@click.command()
@click.option("--older-than", type=Age(), metavar="AGE", help="Only what ended longer ago than this, such as 30d.")
@click.option(
    "--status",
    "statuses",
    multiple=True,
    type=click.Choice(get_args(Ended)),
    help="Only tasks that ended so; may be given again.",
)
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@click.option("--yes", is_flag=True, help="Remove without asking.")
@as_json
def prune(older_than: float | None, statuses: tuple[Ended, ...], *, dry_run: bool, yes: bool, is_json: bool) -> None:
    """Remove ended tasks, with their runs, logs and artifacts; superusers only.

    Without --older-than it removes the tasks whose retention by the server's settings (TREADLE_RETENTION_…) is over,
    which the server also does by itself. Tasks that are open, hold a target or are still needed stay.
    """
    if dry_run or not yes:
        planned = ask(lambda client: client.prune(older_than=older_than, status=statuses or None, dry_run=True))
        if dry_run or not planned.tasks:
            # Nothing was confirmed, so tasks whose retention ends a moment later must stay.
            told = planned if dry_run else planned.model_copy(update={"dry_run": False})
            print_json(told) if is_json else _print(told)
            return
        _print_groups(planned, err=is_json)
        click.confirm(f"Remove {counted(planned.tasks, 'task')}?", abort=True, err=True)
    removed = ask(lambda client: _all(client, older_than, statuses))
    if is_json:
        print_json(removed)
    elif yes:
        _print(removed)
    else:
        say(_sum(removed))


async def _all(client: "Client", older_than: float | None, statuses: Sequence[Ended]) -> "PruneAnswer":
    """Repeat the request until nothing is left, and return the sum."""
    from treadle.wire.prune import PruneAnswer

    groups: Counter[tuple[str, str]] = Counter()
    done = False
    while not done:
        part = await client.prune(older_than=older_than, status=statuses or None)
        done = part.done
        groups.update({(group.job, group.status): group.tasks for group in part.groups})
        if not done:
            say(f"{counted(groups.total(), 'task')} removed so far", err=True)
    shown = [{"job": job, "status": status, "tasks": n} for (job, status), n in sorted(groups.items())]
    return PruneAnswer.model_validate({"dry_run": False, "tasks": groups.total(), "groups": shown})


def _print(answer: "PruneAnswer") -> None:
    _print_groups(answer)
    if answer.groups:
        say(_sum(answer))


def _print_groups(answer: "PruneAnswer", *, err: bool = False) -> None:
    rows = [(group.job, group.status, group.tasks) for group in answer.groups]
    print_table(("job", "status", "tasks"), rows, empty="No task is past its retention.", err=err)


def _sum(answer: "PruneAnswer") -> str:
    return f"{counted(answer.tasks, 'task')} {'would be removed' if answer.dry_run else 'removed'}."
