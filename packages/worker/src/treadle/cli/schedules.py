"""`treadle schedules`: list, show, set, pause, resume, run and delete recurring tasks."""

from typing import TYPE_CHECKING, Any, get_args

import click

from treadle.cli.show import (
    ListedGroup,
    age,
    as_json,
    ask,
    at_most,
    brief,
    from_room,
    length,
    print_item,
    print_page,
)
from treadle.cli.steer import steer_each
from treadle.cli.submit import payload_of
from treadle.cli.task_options import Duration, options_of, task_traits
from treadle.wire.schedules import Missed

if TYPE_CHECKING:
    from treadle.client.client import Client
    from treadle.wire.schedules import ScheduleItem

_room = click.option("--room", default="@global", show_default=True, help="The room that the tasks are submitted from.")
_names = click.argument("names", nargs=-1, required=True, metavar="NAME...")


@click.group(cls=ListedGroup, subcommand_metavar="[COMMAND] [ARGS]...")
def schedules() -> None:
    """List recurring tasks, or set, pause, run and delete them.

    Without a COMMAND it lists, and takes the options of `list`.
    """


@schedules.command("list")
@from_room
@at_most
@as_json
def show_list(*, room: str, limit: int, is_json: bool) -> None:
    """List the schedules that can be seen from a room, with the next tick and the last task of each."""
    page = ask(lambda client: client.schedules(room, limit=limit))
    columns = ("name", "when", "state", "next", "last", "ended", "job")
    print_page(page, columns, _row, empty=f"No schedules in {room}.", is_json=is_json)


@schedules.command()
@click.argument("name")
@_room
@as_json
def show(name: str, *, room: str, is_json: bool) -> None:
    """Show a schedule."""
    item = ask(lambda client: client.schedule(name, room=room))
    print_item(item, _lines(item), is_json=is_json)


@schedules.command("set")
@click.argument("name")
@click.argument("job")
@click.argument("arguments", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--cron", help="Five fields, as '*/5 * * * *', or six with the second first.")
@click.option("--zone", help="The time zone of the cron expression; UTC when left out.")
@click.option("--every", "interval", type=Duration(1), help="The time between two ticks, instead of --cron.")
@click.option("--jitter", type=Duration(0), default=0, help="Delay each task by up to this many seconds, at random.")
@click.option("--missed", type=click.Choice(get_args(Missed)), default="late", show_default=True,
              help="One late run for all ticks that were missed, or none.")  # fmt: skip
@click.option("--payload", help="The whole payload as JSON, instead of KEY=VALUE.")
@task_traits
@click.option("--deadline", type=Duration(0, min_open=True),
              help="How long after its tick a task fails unless it has ended.")  # fmt: skip
@click.option("--flow-name", help="Each task begins a flow of this name, to which its code may add.")
@click.option(
    "--paused/--running", default=None, help="Pause the schedule or let it run; by default it stays as it is."
)
@_room
@as_json
def set_schedule(
    name: str, job: str, arguments: tuple[str, ...], *, payload: str | None, cron: str | None, zone: str | None,
    interval: float | None, jitter: float, missed: Missed, deadline: float | None, paused: bool | None, room: str,
    is_json: bool, **given: Any,
) -> None:  # fmt: skip
    """Create or replace the schedule NAME of JOB, room:category:name.

    A VALUE is JSON if it parses as such, else text. If the times stay the same, so does the next tick.
    """
    if (cron is None) == (interval is None):
        raise click.UsageError("give either --cron or --every")
    options, content = options_of(given), payload_of(arguments, payload)

    item = ask(
        lambda client: client.set_schedule(
            name, job=job, room=room, payload=content, cron=cron, zone=zone, interval=interval, jitter=jitter,
            missed=missed, options=options, deadline=deadline, paused=paused,
        )
    )  # fmt: skip
    print_item(item, _lines(item), is_json=is_json)


@schedules.command()
@_names
@_room
@as_json
def pause(names: tuple[str, ...], *, room: str, is_json: bool) -> None:
    """Pause schedules: they submit no tasks until they are resumed."""
    steer_each(
        names,
        lambda client, name: client.pause_schedule(name, room=room),
        lambda item: f"{item.name} paused",
        is_json=is_json,
    )


@schedules.command()
@_names
@_room
@as_json
def resume(names: tuple[str, ...], *, room: str, is_json: bool) -> None:
    """Let paused schedules go on, with the next tick counted from now."""
    steer_each(
        names,
        lambda client, name: client.resume_schedule(name, room=room),
        lambda item: f"{item.name} next {age(item.next_at)}",
        is_json=is_json,
    )


@schedules.command("run")
@_names
@_room
@as_json
def run_now(names: tuple[str, ...], *, room: str, is_json: bool) -> None:
    """Submit schedules' tasks now, and print their ids; the ticks stay as they are."""
    steer_each(
        names, lambda client, name: client.run_schedule(name, room=room), lambda task: str(task.id), is_json=is_json
    )


@schedules.command()
@_names
@_room
@as_json
def delete(names: tuple[str, ...], *, room: str, is_json: bool) -> None:
    """Delete schedules; a task that is running goes on."""

    async def gone(client: "Client", name: str) -> dict[str, str]:
        await client.delete_schedule(name, room=room)
        return {"deleted": name}

    steer_each(names, gone, lambda done: f"{done['deleted']} deleted", is_json=is_json)


def _when(item: "ScheduleItem") -> str:
    if item.interval is not None:
        return f"every {length(item.interval)}"
    return f"{item.cron} {item.zone}"


def _row(item: "ScheduleItem") -> tuple[object, ...]:
    on = "skips" if item.skips else "on"
    state = "paused" if item.paused else on if item.stands_still is None else "stands still"
    last = age(item.last_at) if item.last_at is not None else None
    due = age(item.next_at) if item.next_at is not None else None
    return (item.name, _when(item), state, due, last, item.last_status, item.job_name)


def _lines(item: "ScheduleItem") -> dict[str, object]:
    last = None if item.last_task_id is None else f"{age(item.last_at)}, {item.last_task_id} {item.last_status or ''}"
    return {
        "schedule": f"{item.name}, in {item.room_id}{', paused' if item.paused else ''}",
        "job": item.job_name,
        "when": _when(item) + (f", up to {length(item.jitter)} later" if item.jitter else ""),
        "missed": "one late run" if item.missed == "late" else "skipped",
        "stands": None if item.stands_still is None else f"still: {item.stands_still}",
        "next": None if item.next_at is None else f"{item.next_at:%Y-%m-%d %H:%M:%S} UTC, {age(item.next_at)}",
        "last": last,
        "skipped": None if item.skipped_at is None else f"{age(item.skipped_at)}, {item.skipped_because}",
        "payload": brief(item.payload, 200),
        "options": brief(item.options, 200) if item.options else None,
        "owner": item.owner,
    }
