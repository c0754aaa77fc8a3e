"""`treadle outbox`, and its `list|retry|drop|ddl`."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from treadle.cli.show import age, as_json, print_json, print_table, say, say_result
from treadle.cli.task_options import Duration
from treadle.cli.which import Id, is_whole, the_one
from treadle.wire.amounts import counted

if TYPE_CHECKING:
    from sqlalchemy import Connection, Table

    from treadle.outbox.database import Database
    from treadle.outbox.relay import Swept
    from treadle.outbox.rows import Row

T = TypeVar("T")

_REFUSED = "refused row"


@click.group(invoke_without_command=True)
@click.option("--database", metavar="URL", help="The database, as SQLAlchemy names it (TREADLE_OUTBOX_DATABASE_URL).")
@click.option("--table", default="treadle_outbox", show_default=True, help="The table; SCHEMA.TABLE in a schema.")
@click.option(
    "--batch", type=click.IntRange(1, 1000), default=500, show_default=True, help="Rows to hand over at once."
)
@click.option("--interval", type=Duration(0.01, 3600), default=0.5, show_default=True,
              help="Seconds between two checks when nothing waits.")  # fmt: skip
@click.option("--once", is_flag=True, help="Hand over what waits now, then stop; exit 1 if a row is left or refused.")
@as_json
@click.pass_context
def outbox(
    context: click.Context, *, database: str | None, table: str, batch: int, interval: float, once: bool, is_json: bool
) -> None:
    """Hand the outbox of a database over to the server, until Ctrl-C or SIGTERM.

    Programs write to it with `treadle.outbox` inside their own transactions; each row becomes a task exactly once. Rows
    that the server refuses for good stay, and `list` shows them.
    """
    _need_sqlalchemy()
    if is_json and (not once or context.invoked_subcommand is not None):
        raise click.UsageError("--json: give it after the sub-command, or with --once alone")
    if context.invoked_subcommand is not None:
        context.obj = (database, table)
        return
    from treadle import logs
    from treadle.outbox.relay import Relay
    from treadle.settings import Settings

    url, found = _url(database), _table(table)
    if once:
        with _answering():
            swept = asyncio.run(Relay(url, table=found, batch=batch).run_once())
        _once(swept, is_json=is_json)
        return
    logs.begin(Settings().log_format)
    asyncio.run(Relay(url, table=found, batch=batch, interval=interval).run_with_signals())


def _once(swept: "Swept", *, is_json: bool) -> None:
    from dataclasses import asdict

    if is_json:
        print_json(asdict(swept))
    else:
        say(f"{swept.handed} handed over, {swept.refused} refused, {swept.left} left")
    if swept.left or swept.refused:
        raise SystemExit(1)


@outbox.command("list")
@click.option("--waiting", is_flag=True, help="List rows that still wait, instead of refused ones.")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="At most this many rows.")
@as_json
@click.pass_obj
def list_(place: tuple[str | None, str], *, waiting: bool, limit: int, is_json: bool) -> None:
    """List refused rows, and count the waiting ones."""
    from functools import partial

    from treadle.outbox.refusals import listed

    found = _within(place, lambda table: partial(listed, waiting=waiting, limit=limit, table=table))
    if is_json:
        rows = [_plain(row) for row in found.rows]
        print_json({"waiting": found.waiting, "refused": found.refused, "rows": rows})
        return
    columns = ("id", "job", "room", "written", "refused", "problem")
    print_table(columns, [_line(row) for row in found.rows], empty=f"No rows {'wait' if waiting else 'are refused'}.")
    say(f"{found.waiting} waiting, {found.refused} refused")


def _plain(row: "Row") -> dict[str, Any]:
    from dataclasses import asdict

    plain = {name: _text(value) for name, value in asdict(row).items() if name != "registration"}
    instants = {name: plain[name] and plain[name].isoformat() for name in ("created_at", "refused_at")}
    return {**plain, **instants}


def _text(value: Any) -> Any:
    """Return a value fit to be shown: another program may have put invalid UTF-8 into SQLite."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _line(row: "Row") -> tuple[object, ...]:
    problem = row.problem and (row.problem.get("detail") or row.problem.get("title"))
    return (_text(row.id), _text(row.job), _text(row.room), age(row.created_at), age(row.refused_at), problem)


@outbox.command()
@click.argument("ids", type=Id(_REFUSED), nargs=-1, metavar="[ID]...")
@click.option("--all", "is_all", is_flag=True, help="All refused rows.")
@as_json
@click.pass_obj
def retry(place: tuple[str | None, str], ids: tuple[str, ...], *, is_all: bool, is_json: bool) -> None:
    """Have refused rows tried again: those of the tasks with these IDs, or with --all all of them.

    An ID may be shortened to its beginning if that is unique.
    """
    from treadle.outbox.refusals import retry as again

    changed = _change(place, ids, again, is_all=is_all)
    print_json({"retried": changed}) if is_json else say(f"{counted(changed, 'row')} will be tried again")


@outbox.command()
@click.argument("ids", type=Id(_REFUSED), nargs=-1, metavar="[ID]...")
@click.option("--all", "is_all", is_flag=True, help="All refused rows.")
@as_json
@click.pass_obj
def drop(place: tuple[str | None, str], ids: tuple[str, ...], *, is_all: bool, is_json: bool) -> None:
    """Drop refused rows: those of the tasks with these IDs, or with --all all of them. They never become tasks.

    An ID may be shortened to its beginning if that is unique.
    """
    from treadle.outbox.refusals import drop as away

    changed = _change(place, ids, away, is_all=is_all)
    print_json({"dropped": changed}) if is_json else say(f"{counted(changed, 'row')} dropped")


@outbox.command()
@click.pass_obj
def ddl(place: tuple[str | None, str]) -> None:
    """Print the statements that create the table, in the database's own SQL."""
    from sqlalchemy.exc import IdentifierError

    from treadle.outbox.table import ddl as statements

    try:
        said = statements(_database(place[0]).dialect, _table(place[1]))
    except IdentifierError as error:
        raise click.UsageError(f"--table: {error}") from None
    say_result(said)


def _change(place: tuple[str | None, str], ids: tuple[str, ...], change: Callable[..., int], *, is_all: bool) -> int:
    """Change the given refused rows. Raises click's `ClickException` when no row has such an id."""
    if bool(ids) is is_all:
        raise click.UsageError("give either IDs or --all")

    from functools import partial

    return _within(place, lambda table: partial(_changed, given=ids, change=change, table=table))


def _changed(connection: "Connection", *, given: tuple[str, ...], change: Callable[..., int], table: "Table") -> int:
    from treadle.outbox.refusals import refused_ids

    refused = [] if all(map(is_whole, given)) else refused_ids(connection, table=table)
    ids = {one if is_whole(one) else the_one(one, _REFUSED, refused) for one in given}
    changed = change(connection, ids or None, table=table)
    if ids and not changed:
        raise click.ClickException("no refused row has such an id: `treadle outbox list` lists the refused rows")
    return changed


def _within(place: tuple[str | None, str], work: "Callable[[Table], Callable[[Any], T]]") -> T:
    """Call what `work` returns for the table, in a transaction."""
    database, table = _database(place[0]), _table(place[1])

    async def called() -> T:
        try:
            async with database.begin() as do:
                found: T = await do(work(table))
                return found
        finally:
            await database.close()

    with _answering():
        return asyncio.run(called())


@contextmanager
def _answering() -> Iterator[None]:
    """Report an unreachable database in one sentence; the SDK's errors are about the server, and are passed on."""
    from sqlalchemy.exc import DBAPIError

    from treadle.errors import TreadleError

    try:
        yield
    except TreadleError:
        raise
    except (DBAPIError, OSError) as error:
        raise click.ClickException(f"the outbox's database does not answer: {getattr(error, 'orig', error)}") from None


def _url(given: str | None) -> str:
    from treadle.settings import Settings

    said = Settings().outbox_database_url
    url = given or (said and said.get_secret_value())
    if not url:
        raise click.UsageError("which database? Give --database URL, or set TREADLE_OUTBOX_DATABASE_URL")
    return url


def _database(given: str | None) -> "Database":
    url = _url(given)
    from treadle.outbox.database import Database

    return Database(url)


def _table(name: str) -> "Table":
    from sqlalchemy import MetaData

    from treadle.outbox.table import table_in

    schema, _, own = name.rpartition(".")
    return table_in(MetaData(), own, schema=schema or None)


def _need_sqlalchemy() -> None:
    from importlib.util import find_spec

    if find_spec("sqlalchemy") is None:
        raise click.UsageError(
            "`treadle outbox` needs SQLAlchemy, which is not installed: pip install 'treadle[outbox]'"
        )
