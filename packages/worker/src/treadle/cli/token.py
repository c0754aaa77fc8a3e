"""`treadle token create|list|revoke`."""

from typing import Any

import click

from treadle.cli.show import age, as_json, open_client, print_json, print_table, run


@click.group()
def token() -> None:
    """Make, list and revoke tokens; superusers only."""


@token.command()
@click.argument("name")
@click.option("--superuser", is_flag=True, help="It may do everything.")
@click.option("--scope", "scopes", multiple=True, help="A scope, such as queue:read:lab; may be given again.")
@click.option("--expires-at", type=click.DateTime(["%Y-%m-%dT%H:%M:%S%z"]), help="When it ends, with a zone.")
@as_json
def create(name: str, *, superuser: bool, scopes: tuple[str, ...], expires_at: Any, is_json: bool) -> None:
    """Make a token for a user; it is shown this once.

    Without scopes it registers, submits and reads in plain rooms, and controls its own tasks and workers.
    """

    async def work() -> Any:
        async with open_client() as client:
            return await client.create_token(
                name, superuser=superuser, scopes=list(scopes) or None, expires_at=expires_at
            )

    made = run(work())
    if is_json:
        print_json(made)
    else:
        click.echo(made.token)


@token.command("list")
@as_json
def list_(*, is_json: bool) -> None:
    """List tokens, without their secrets."""

    async def work() -> Any:
        async with open_client() as client:
            return await client.tokens(limit=500)

    page = run(work())
    if is_json:
        print_json(page)
        return
    rows = [
        (
            item.id,
            item.name,
            "yes" if item.superuser else "no",
            age(item.created_at),
            age(item.expires_at),
            _state(item),
        )
        for item in page.items
    ]
    print_table(("id", "name", "superuser", "created", "expires", "state"), rows, empty="No tokens.")


def _state(item: Any) -> str:
    return "revoked" if item.revoked_at else "valid"


@token.command()
@click.argument("token_id", metavar="ID")
def revoke(token_id: str) -> None:
    """Revoke a token, by its id."""

    async def work() -> None:
        async with open_client() as client:
            await client.revoke_token(token_id)

    run(work())
    click.echo(f"{token_id} revoked")
