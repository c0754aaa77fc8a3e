"""`treadle limits`: how much may run at once or start within a time, over all workers; lists, sets and deletes them."""

from typing import TYPE_CHECKING, get_args

import click

from treadle.cli.show import (
    ListedGroup,
    as_json,
    ask,
    at_most,
    from_room,
    length,
    print_item,
    print_json,
    print_page,
    print_table,
    say,
)
from treadle.wire.limits import OnFull

if TYPE_CHECKING:
    from treadle.wire.limits import LimitItem, LimitKey

_room = click.option("--room", default="@global", show_default=True, help="The limit's room.")


@click.group(cls=ListedGroup, subcommand_metavar="[COMMAND] [ARGS]...")
def limits() -> None:
    """List limits over all workers, or set and delete them.

    Without a COMMAND it lists, and takes the options of `list`.
    """


@limits.command("list")
@from_room
@at_most
@as_json
def show_list(*, room: str, limit: int, is_json: bool) -> None:
    """List the limits that can be seen from a room, with their use and how many tasks wait."""
    page = ask(lambda client: client.limits(room, limit=limit))
    columns = ("limit", "room", "at once", "rate", "when full", "used", "waiting", "keys")
    print_page(page, columns, _row, empty=f"No limits in {room}.", is_json=is_json)


@limits.command()
@click.argument("name")
@_room
@as_json
def show(name: str, *, room: str, is_json: bool) -> None:
    """Show a limit, with the keys that have the most waiting tasks, and the fullest ones."""
    item = ask(lambda client: client.limit(name, room=room))
    print_item(item, _lines(item), is_json=is_json)
    if not is_json and any(one.key is not None for one in item.busiest):
        keys = [("(no key)" if one.key is None else one.key, one.used, _waiting(one)) for one in item.busiest]
        print_table(("busiest key", "used", "waiting"), keys, empty="")


@limits.command("set")
@click.argument("name")
@click.option("--concurrency", type=click.IntRange(1), help="The most weight that may run at once.")
@click.option("--rate", metavar="COUNT/SECONDS", help="At most COUNT claims in SECONDS, such as 100/60.")
@click.option("--burst", type=click.IntRange(1), help="The most claims at once; by default the rate's COUNT.")
@click.option(
    "--on-full",
    type=click.Choice(get_args(OnFull)),
    default="wait",
    show_default=True,
    help="What to do with a task that is submitted when there is no room.",
)
@_room
@as_json
def set_limit(
    name: str,
    *,
    concurrency: int | None,
    rate: str | None,
    burst: int | None,
    on_full: OnFull,
    room: str,
    is_json: bool,
) -> None:
    """Create or change the limit NAME; it applies at once to waiting tasks too.

    Parts that are not given are removed: without --rate there is none.
    """
    if concurrency is None and rate is None:
        raise click.UsageError("give --concurrency, --rate or both")
    if burst is not None and rate is None:
        raise click.UsageError("--burst: only allowed with --rate")
    given = None if rate is None else _rate(rate)
    _check(concurrency, given, burst)

    item = ask(
        lambda client: client.set_limit(
            name, room=room, concurrency=concurrency, rate=given, burst=burst, on_full=on_full
        )
    )
    print_item(item, _lines(item), is_json=is_json)


@limits.command()
@click.argument("name")
@_room
@as_json
def delete(name: str, *, room: str, is_json: bool) -> None:
    """Delete a limit that no open task or job names."""
    ask(lambda client: client.delete_limit(name, room=room))
    print_json({"deleted": name}) if is_json else say(f"{name} deleted")


def _rate(text: str) -> tuple[int, float]:
    count, _, seconds = text.partition("/")
    try:
        return int(count), float(seconds)
    except ValueError:
        raise click.UsageError(f"--rate: {text[:60]!r} is not COUNT/SECONDS, such as 100/60") from None


def _check(concurrency: int | None, rate: tuple[int, float] | None, burst: int | None) -> None:
    """Raise click's `UsageError` for numbers that no limit can have."""
    from pydantic import ValidationError

    from treadle.values import first_wrong
    from treadle.wire.limits import Caps

    pace = None if rate is None else {"count": rate[0], "seconds": rate[1], "burst": burst}
    try:
        Caps.model_validate({"concurrency": concurrency, "rate": pace})
    except ValidationError as error:
        place, _, why = first_wrong(error).partition(": ")
        part = place.removeprefix("rate.")
        raise click.UsageError(
            f"--{part if part in {'concurrency', 'burst'} else f'rate: its {part}'}: {why}"
        ) from None


def _per(item: "LimitItem") -> str | None:
    if item.rate is None:
        return None
    burst = "" if item.rate.burst == item.rate.count else f", {item.rate.burst} at once"
    return f"{item.rate.count} in {length(item.rate.seconds)}{burst}"


def _waiting(of: "LimitItem | LimitKey") -> str:
    return f"{of.waiting}{'+' if of.waiting_is_capped else ''}"


def _row(item: "LimitItem") -> tuple[object, ...]:
    return (item.name, item.room_id, item.concurrency, _per(item), item.on_full, item.used, _waiting(item), item.keys)


def _lines(item: "LimitItem") -> dict[str, object]:
    return {
        "limit": f"{item.name}, in {item.room_id}",
        "at once": item.concurrency,
        "rate": _per(item),
        "when full": item.on_full,
        "used": item.used,
        "waiting": _waiting(item),
        "keys": item.keys,
    }
