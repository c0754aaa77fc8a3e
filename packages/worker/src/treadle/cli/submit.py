"""`treadle submit JOB key=value…`."""

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from treadle.cli.show import as_json, open_client, print_json, run

if TYPE_CHECKING:
    from treadle.options import Options


@click.command()
@click.argument("job")
@click.argument("arguments", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--payload", help="The whole payload as JSON, instead of KEY=VALUE.")
@click.option("--wait", is_flag=True, help="Wait for the end and print the result; exit 1 unless it completed.")
@click.option("--timeout", "wait_seconds", type=click.FloatRange(0), help="Seconds to wait at most, with --wait.")
@click.option("--room", help="The room to submit from; the job's own when left out.")
@click.option("--id", help="The task's id, a UUID: the same id with the same content is the same task.")
@click.option("--priority", type=int, help="Higher goes first.")
@click.option("--delay", type=click.FloatRange(0), help="Seconds until it is due.")
@click.option("--at", "scheduled_at", type=click.DateTime(["%Y-%m-%dT%H:%M:%S%z"]), help="When it is due, with a zone.")
@click.option("--deadline", type=click.DateTime(["%Y-%m-%dT%H:%M:%S%z"]), help="Past it the task fails.")
@click.option("--run-timeout", type=click.FloatRange(0, min_open=True), help="Seconds that a run may take.")
@click.option("--max-retries", type=click.IntRange(0), help="How often it is tried again.")
@click.option("--max-requeues", type=click.IntRange(0), help="How often it is put back after a lost worker.")
@click.option("--target", help="The named resource that it has for itself.")
@click.option("--weight", type=click.IntRange(1), help="How much of a worker's concurrency it takes.")
@click.option("--pool", help="The pool of workers that may run it.")
@click.option("--tag", "tags", multiple=True, metavar="KEY=VALUE", help="A tag; may be given again.")
@click.option("--unique-key", help="While an open task of the job holds the key, that one is returned.")
@as_json
def submit(
    job: str, arguments: tuple[str, ...], *, payload: str | None, wait: bool, wait_seconds: float | None,
    room: str | None, is_json: bool, **given: Any,
) -> None:  # fmt: skip
    """Submit a task to JOB, room:category:name, and print its id.

    A VALUE is JSON when it parses as such, else text: n=3 is a number, name=World is text, n='"3"' is text again.
    """
    options = _options(given)
    body = payload_of(arguments, payload)
    run(_submit(job, body, options, room=room, wait=wait, wait_seconds=wait_seconds, is_json=is_json))


async def _submit(
    job: str, payload: dict[str, Any], options: "Options", *, room: str | None, wait: bool, wait_seconds: float | None,
    is_json: bool,
) -> None:  # fmt: skip
    async with open_client(room) as client:
        handle = await client.submit_raw(job, payload, options=options, wait=wait)
        if not wait:
            if is_json:
                print_json(handle.submitted)
            else:
                click.echo(handle.id)
        elif is_json:
            ended = await handle.wait(wait_seconds)
            print_json(ended)
            if ended.status != "completed":
                raise SystemExit(1)
        else:
            result = await handle.result(wait_seconds)
            click.echo(result if isinstance(result, str) else json.dumps(result, ensure_ascii=False))


def payload_of(arguments: tuple[str, ...], payload: str | None) -> dict[str, Any]:
    """Return the payload that KEY=VALUE arguments or `--payload` mean. Raises click's `UsageError`."""
    if payload is None:
        return {name: value_of(text) for name, text in (_pair(argument, "KEY=VALUE") for argument in arguments)}
    if arguments:
        raise click.UsageError("give either KEY=VALUE arguments or --payload, not both")
    try:
        body = json.loads(payload)
    except ValueError as error:
        raise click.UsageError(f"--payload is no JSON: {error}") from None
    if not isinstance(body, dict):
        raise click.UsageError(f"--payload must be a JSON object, not {payload[:60]}")
    return body


def value_of(text: str) -> Any:
    """Return a value as JSON when it parses as such, else as the text it is."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _pair(argument: str, form: str) -> tuple[str, str]:
    name, separator, value = argument.partition("=")
    if not separator or not name:
        raise click.UsageError(f"{argument!r} is no {form}")
    return name, value


def _options(given: dict[str, Any]) -> "Options":
    from pydantic import ValidationError

    from treadle.options import Options

    tags = dict(_pair(tag, "KEY=VALUE") for tag in given.pop("tags"))
    given["timeout"] = given.pop("run_timeout")
    options = {name: value for name, value in given.items() if value is not None}
    for name in ("scheduled_at", "deadline"):
        assert isinstance(options.get(name), datetime | None)
    try:
        return Options.model_validate(options | ({"tags": tags} if tags else {}))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise click.UsageError(f"--{str(first['loc'][0]).replace('_', '-')}: {first['msg']}") from None
