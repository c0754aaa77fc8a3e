"""`treadle token create|list|revoke`: who may do what, and until when."""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import click

from treadle.cli.clock import server_time
from treadle.cli.show import ListedGroup, age, as_json, ask, at_most, print_json, print_page, print_table, say
from treadle.cli.task_options import TIME, Age
from treadle.cli.which import LENGTH, is_beginning, the_one
from treadle.wire.ids import begins

if TYPE_CHECKING:
    from treadle.client.client import Client
    from treadle.wire.server import NewToken, TokenItem


@click.group(cls=ListedGroup, subcommand_metavar="[COMMAND] [ARGS]...")
def token() -> None:
    """Create, list and revoke tokens; superusers only.

    Without a COMMAND it lists, and takes the options of `list`.
    """


@token.command()
@click.argument("name")
@click.option("--superuser", is_flag=True, help="A token that may do everything.")
@click.option("--scope", "scopes", multiple=True, help="A scope, such as queue:read:lab; may be given again.")
@click.option("--expires", type=Age(), help="How long it is valid, such as 12h or 30d.")
@click.option("--expires-at", type=TIME, help="When it expires, with a zone.")
@as_json
def create(
    name: str,
    *,
    superuser: bool,
    scopes: tuple[str, ...],
    expires: float | None,
    expires_at: datetime | None,
    is_json: bool,
) -> None:
    """Create a token for a user; it is shown only once.

    Without scopes it may register jobs, submit and read in plain rooms, and control its own tasks and workers.
    """
    if expires is not None and expires_at is not None:
        raise click.UsageError("give --expires or --expires-at, not both")

    async def make(client: "Client") -> "NewToken":
        # By the server's clock, which decides when it expires.
        at = expires_at if expires is None else (await client.stats()).server_time + timedelta(seconds=expires)
        return await client.create_token(name, superuser=superuser, scopes=list(scopes) or None, expires_at=at)

    made = ask(make)
    if is_json:
        print_json(made)
    else:
        say(made.token)


@token.command("list")
@at_most
@as_json
def list_(*, limit: int, is_json: bool) -> None:
    """List tokens, newest first, without their secrets."""
    page = ask(lambda client: client.tokens(limit=limit))
    columns = ("id", "name", "superuser", "scopes", "created", "expires", "state")
    print_page(page, columns, _row, empty="No tokens.", is_json=is_json)


def _row(item: "TokenItem") -> tuple[object, ...]:
    superuser, scopes = "yes" if item.superuser else "no", " ".join(item.scopes) or None
    return (item.id, item.name, superuser, scopes, age(item.created_at), age(item.expires_at), _state(item))


def _state(item: "TokenItem") -> str:
    if item.revoked_at is not None:
        return "revoked"
    return "expired" if item.expires_at is not None and item.expires_at <= server_time.now() else "valid"


@token.command("rotate-keys")
@click.option("--revoke", is_flag=True, help="Revoke all temporary credentials that were issued so far.")
@as_json
def rotate_keys(*, revoke: bool, is_json: bool) -> None:
    """Sign temporary credentials, those of tasks' code, with a new key.

    The old keys stay valid until the longest lease is over, for at least an hour.
    """
    keys = ask(lambda client: client.rotate_keys(revoke=revoke))
    if is_json:
        print_json(keys)
        return
    rows = [(key.id, age(key.created_at), age(key.valid_until) if key.valid_until else "signs") for key in keys.items]
    print_table(("id", "created", "valid until"), rows, empty="No keys.")


@token.command()
@click.argument("which", metavar="ID|NAME")
@as_json
def revoke(which: str, *, is_json: bool) -> None:
    """Revoke a token, by its id, the beginning of its id, or its name, if only one valid token has it."""

    async def work(client: "Client") -> str:
        token_id = await _id_of(client, which)
        await client.revoke_token(token_id)
        return token_id

    revoked = ask(work)
    print_json({"revoked": revoked}) if is_json else say(f"{revoked} revoked")


async def _id_of(client: "Client", which: str) -> str:
    """Return the id of the given token. Raises a `ClickException` when no valid token matches, or several do.

    A token's name takes precedence over the beginnings of ids.
    """
    if len(which) == LENGTH and is_beginning(which):
        return which
    valid = [item async for item in client.tokens() if _state(item) == "valid"]
    named = [item.id for item in valid if item.name == which]
    begun = [item.id for item in valid if begins(item.id, which)] if is_beginning(which) else []
    if len(named) > 1:
        raise click.ClickException(
            f"{len(named)} valid tokens are named {which!r}: revoke one by its id ({', '.join(named)})"
        )
    if not named and not begun:
        raise click.ClickException(
            f"no valid token is named {which!r} or has an id that begins with it; see treadle token list"
        )
    return named[0] if named else the_one(which, "valid token", begun)
