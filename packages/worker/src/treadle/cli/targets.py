"""`treadle targets`: which targets are held, by what and why, and what waits for them."""

from typing import TYPE_CHECKING

import click

from treadle.cli.show import age, as_json, ask, at_most, print_json, print_page, say, say_line, spelt

if TYPE_CHECKING:
    from treadle.wire.targets import TargetItem


@click.command()
@click.argument("name", required=False)
@click.option(
    "--room", default="@global", show_default=True, help="The room that the targets' tasks were submitted from."
)
@click.option("--held", is_flag=True, help="Only targets that are held.")
@at_most
@as_json
def targets(name: str | None, *, room: str, held: bool, limit: int, is_json: bool) -> None:
    """List a room's targets, or show the one called NAME.

    A target is held by a task that is running, is paused, has failed or waits for a retry, and by a cancelled one until
    its code has stopped. `treadle resume` lets a paused or failed task go on, and `treadle resolve` settles it; after
    either it no longer holds the target.
    """
    if name is not None:
        item = ask(lambda client: client.target(name, room=room))
        print_json(item) if is_json else _print_one(item)
        return
    page = ask(lambda client: client.targets(room, held=held or None, limit=limit))
    columns = ("target", "state", "since", "until", "held by", "waiting", "next")
    empty = f"No targets{' held' if held else ''} in {room}."
    print_page(page, columns, _row, empty=empty, is_json=is_json)


def _row(item: "TargetItem") -> tuple[object, ...]:
    holders = ", ".join(dict.fromkeys(holder.task_id for holder in item.holders))
    since, until = (age(at) if at is not None else None for at in (item.since, item.until))
    return (item.name, item.cause or "free", since, until, holders or None, item.waiting, item.next_task_id)


def _print_one(item: "TargetItem") -> None:
    say_line("target", f"{spelt(item.name)}, in {item.room_id}")
    for holder in item.holders:
        until = f", until {age(holder.until)}" if holder.until is not None else ""
        run_of = "" if holder.run_id is None else f", run {holder.run_id}"
        said = f"{holder.cause}, since {age(holder.since)}{until}: {holder.task_id} of {holder.job_name}{run_of}"
        say_line("held", said)
    if not item.holders:
        say("free")
    say_line("waiting", item.waiting)
    if item.next_task_id is not None:
        say_line("next", item.next_task_id)
