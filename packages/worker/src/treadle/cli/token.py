"""`treadle token create|list|revoke`: who may ask for what, and until when."""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from treadle.cli.show import age, as_json, ask, print_json, print_table, say
from treadle.cli.task_options import TIME, Duration
from treadle.wire.ids import is_uuid
from treadle.wire.pages import MOST_OF_PAGE

if TYPE_CHECKING:
    from treadle.client.client import Client


@click.group()
def token() -> None:
    """Make, list and revoke tokens; superusers only."""


@token.command()
@click.argument("name")
@click.option("--superuser", is_flag=True, help="It may do everything.")
@click.option("--scope", "scopes", multiple=True, help="A scope, such as queue:read:lab; may be given again.")
@click.option("--expires", type=Duration(), help="After how long it ends, such as 12h or 30d.")
@click.option("--expires-at", type=TIME, help="When it ends, with a zone.")
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
    """Make a token for a user; it is shown this once.

    Without scopes it registers, submits and reads in plain rooms, and controls its own tasks and workers.
    """
    if expires is not None and expires_at is not None:
        raise click.UsageError("give --expires or --expires-at, not both")
    if expires is not None:
        expires_at = datetime.now(UTC) + timedelta(seconds=expires)

    made = ask(
        lambda client: client.create_token(
            name, superuser=superuser, scopes=list(scopes) or None, expires_at=expires_at
        )
    )
    if is_json:
        print_json(made)
    else:
        say(made.token)


@token.command("list")
@as_json
def list_(*, is_json: bool) -> None:
    """List tokens, without their secrets."""
    page = ask(lambda client: client.tokens(limit=MOST_OF_PAGE))
    if is_json:
        print_json(page)
        return
    rows = [
        (
            item.id,
            item.name,
            "yes" if item.superuser else "no",
            " ".join(item.scopes) or None,
            age(item.created_at),
            age(item.expires_at),
            _state(item),
        )
        for item in page.items
    ]
    print_table(("id", "name", "superuser", "scopes", "created", "expires", "state"), rows, empty="No tokens.")


def _state(item: Any) -> str:
    if item.revoked_at is not None:
        return "revoked"
    return "expired" if item.expires_at is not None and item.expires_at <= datetime.now(UTC) else "valid"


@token.command("rotate-keys")
@click.option("--revoke", is_flag=True, help="End all temporary credentials that were given out before.")
@as_json
def rotate_keys(*, revoke: bool, is_json: bool) -> None:
    """Sign temporary credentials, those of tasks' code, with a new key.

    The old ones stay valid until the longest lease is over, at least an hour.
    """
    keys = ask(lambda client: client.rotate_keys(revoke=revoke))
    if is_json:
        print_json(keys)
        return
    rows = [(key.id, age(key.created_at), age(key.valid_until) if key.valid_until else "signs") for key in keys.items]
    print_table(("id", "created", "valid until"), rows, empty="No keys.")


@token.command()
@click.argument("which", metavar="ID|NAME")
def revoke(which: str) -> None:
    """Revoke a token, by its id or, when only one valid token has it, by its name."""

    async def work(client: "Client") -> str:
        token_id = await _id_of(client, which)
        await client.revoke_token(token_id)
        return token_id

    say(f"{ask(work)} revoked")


async def _id_of(client: "Client", which: str) -> str:
    """Return the id of the token that is meant. Raises a `ClickException` when the name stands for none or several."""
    if is_uuid(which):
        return which
    found = [item.id async for item in client.tokens() if item.name == which and _state(item) == "valid"]
    if len(found) != 1:
        several = f"{len(found)} valid tokens are named {which!r}: revoke one by its id ({', '.join(found)})"
        raise click.ClickException(several if found else f"no valid token is named {which!r}; see treadle token list")
    return found[0]
