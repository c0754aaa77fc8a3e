"""`treadle artifacts`: the files that a task's runs have stored, and their download."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from treadle.cli.show import age, as_json, open_client, print_json, print_table, run, say, writing
from treadle.cli.which import full_id

if TYPE_CHECKING:
    from treadle.wire.artifacts import ArtifactItem

UNITS = ("bytes", "KB", "MB", "GB")


@click.command()
@click.argument("task_id", metavar="ID")
@click.option("--run", "run_id", type=click.IntRange(0), help="Only those of this run.")
@click.option(
    "--download",
    "directory",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Save them in this directory; of several runs' artifacts of one name the last run's.",
)
@as_json
def artifacts(task_id: str, *, run_id: int | None, directory: Path | None, is_json: bool) -> None:
    """List the artifacts of a task's runs, or save them with --download.

    ID may be the beginning of one, when it is one task's alone.
    """
    items, saved = run(_work(task_id, run_id, directory))
    if is_json:
        print_json(items)
    elif directory is not None:
        for path in saved:
            say(path)
        say(f"{len(saved)} saved in {directory}")
    else:
        columns = ("name", "run", "size", "type", "stored", "expires")
        print_table(columns, [_row(item) for item in items], empty="The task has no artifacts.")


async def _work(given: str, run_id: int | None, directory: Path | None) -> "tuple[list[ArtifactItem], list[Path]]":
    saved: dict[str, Path] = {}
    async with open_client() as client:
        task_id = await full_id(client, given)
        items = await client.artifacts(task_id, run=run_id)
        if directory is not None:
            with writing(directory):
                for item in items:
                    if item.name not in saved:
                        to = _place(directory, item.name)
                        saved[item.name] = await client.download(task_id, item.name, to, run=item.run_id)
    return items, list(saved.values())


def _place(directory: Path, name: str) -> Path:
    """Return where an artifact is saved, with its directory made. Raises click's error for a name that leads out."""
    place = directory / name
    if not place.resolve().is_relative_to(directory.resolve()):
        raise click.ClickException(f"{name!r} would be saved outside of {directory}")
    place.parent.mkdir(parents=True, exist_ok=True)
    return place


def _row(item: "ArtifactItem") -> tuple[object, ...]:
    expires = None if item.expires_at is None else age(item.expires_at)
    return (item.name, item.run_id, _size(item.size), item.content_type, age(item.created_at), expires)


def _size(number: float) -> str:
    """Return a size in its largest unit."""
    unit = 0
    while number >= 1000 and unit < len(UNITS) - 1:
        number, unit = number / 1000, unit + 1
    return f"{number:.0f} {UNITS[unit]}" if unit == 0 or number >= 10 else f"{number:.1f} {UNITS[unit]}"
