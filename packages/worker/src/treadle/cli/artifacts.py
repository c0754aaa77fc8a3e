"""`treadle artifacts`: the files that a task's runs have stored, and their download."""

import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from treadle.cli.show import age, as_json, ask, print_json, print_table, say, writing
from treadle.cli.texts import GivenPath
from treadle.cli.which import TASK_ID, full_id
from treadle.errors import ArtifactNotFound
from treadle.wire.amounts import in_bytes

if TYPE_CHECKING:
    from treadle.client.client import Client
    from treadle.wire.artifacts import ArtifactItem


_OF_THE_NAME = {errno.EEXIST, errno.EILSEQ, errno.EINVAL, errno.EISDIR, errno.ENAMETOOLONG, errno.ENOTDIR}
"""Errors of a file system about a single name, which affect no other: one artifact may be `a` and another `a/b`."""


class _NotSaved(Exception):
    """An artifact can't be saved here because of its name."""


@click.command()
@click.argument("task_id", type=TASK_ID, metavar="ID")
@click.option("--run", "run_id", type=click.IntRange(0), help="Only those of this run.")
@click.option(
    "--download",
    "directory",
    metavar="DIR",
    type=GivenPath(file_okay=False, path_type=Path),
    help="Save them in this directory; where several runs stored one name, the last run's.",
)
@as_json
def artifacts(task_id: str, *, run_id: int | None, directory: Path | None, is_json: bool) -> None:
    """List the artifacts of a task's runs, or save them with --download.

    ID may be shortened to its beginning if that is unique.
    """
    items, saved, missed = ask(lambda client: _work(client, task_id, run_id, directory))
    if is_json:
        print_json(items)
    elif directory is not None:
        for path in saved:
            say(path)
        say(f"{len(saved)} saved in {directory}")
    else:
        columns = ("name", "run", "size", "type", "stored", "expires")
        whose = "The task" if run_id is None else f"Run {run_id} of the task"
        print_table(columns, [_row(item) for item in items], empty=f"{whose} has no artifacts.")
    for error in missed:
        say(f"Error: {error}", err=True)
    if missed:
        raise SystemExit(1)


async def _work(
    client: "Client", given: str, run_id: int | None, directory: Path | None
) -> "tuple[list[ArtifactItem], list[Path], list[str]]":
    """Return the artifacts, where they were saved, and why single ones were not."""
    saved: dict[str, Path | None] = {}
    missed: list[str] = []
    task_id = await full_id(client, given)
    items = await client.artifacts(task_id, run=run_id)
    if directory is not None and items:
        with writing(directory):
            # Created first, so that an error of the directory is reported once, not for each artifact.
            directory.mkdir(parents=True, exist_ok=True)  # noqa: ASYNC240 - the command does nothing else meanwhile
            for item in items:
                if item.name in saved:
                    continue
                saved[item.name] = None
                try:
                    to = _place(directory, item.name)
                    saved[item.name] = await client.download(task_id, item.name, to, run=item.run_id)
                except (_NotSaved, ArtifactNotFound) as error:  # an artifact may expire meanwhile
                    missed.append(str(error))
    return items, [path for path in saved.values() if path is not None], missed


def _place(directory: Path, name: str) -> Path:
    """Return where to save an artifact, and create its directory. Raises `_NotSaved`, and any other `OSError`."""
    place = directory / name
    try:
        if not place.resolve().is_relative_to(directory.resolve()):
            raise _NotSaved(f"{name!r} would be saved outside of {directory}")
        place.parent.mkdir(parents=True, exist_ok=True)
        if place.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        # Finds out now if the name is impossible here; errors of the disk come with the download.
        place.lstat()
    except FileNotFoundError:
        return place
    except OSError as error:
        if error.errno not in _OF_THE_NAME:
            raise
        raise _NotSaved(f"{name!r} can't be saved in {directory} ({error.strerror})") from None
    return place


def _row(item: "ArtifactItem") -> tuple[object, ...]:
    expires = None if item.expires_at is None else age(item.expires_at)
    return (item.name, item.run_id, in_bytes(item.size), item.content_type, age(item.created_at), expires)
