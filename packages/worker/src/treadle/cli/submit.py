"""`treadle submit JOB key=value…`: submits one task, with its payload and options, from the command line."""

import asyncio
import json
import shlex
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING, Any

import click

from treadle.cli.dependencies import Bonds, bonds_of, dependencies
from treadle.cli.show import as_json, open_client, print_json, say, say_result
from treadle.cli.standing import blocking_reason
from treadle.cli.task_options import Duration, each_once, options_of, pair, parsed, task_times, task_traits
from treadle.cli.texts import NAME
from treadle.errors import InvalidArguments, InvalidPayload, TreadleError

if TYPE_CHECKING:
    from treadle.client.handle import TaskHandle
    from treadle.client.options import Options

FIRST_LOOK, LONGEST_PAUSE = 0.2, 5.0
"""Seconds until a waited-for task is first looked at, and the most between two looks; its end is pushed."""

_IS_NO_TEXT = 'is not of type "string"'
"""What is said of a value where the schema wants text."""


@click.command()
@click.argument("job")
@click.argument("arguments", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--payload", help="The whole payload as JSON, instead of KEY=VALUE.")
@click.option("--wait", is_flag=True, help="Wait for the end and print the result; exit 1 unless it completed.")
@click.option("--timeout", "wait_seconds", type=Duration(0), help="Seconds to wait at most, with --wait.")
@click.option("--room", type=NAME, help="The room to submit from; the job's own when left out.")
@click.option("--id", help="The task's id, a UUID: the same id with the same content is the same task.")
@dependencies
@task_times
@task_traits
@as_json
def submit(
    job: str, arguments: tuple[str, ...], *, payload: str | None, wait: bool, wait_seconds: float | None,
    room: str | None, depends_on: tuple[str, ...], argument_from: tuple[str, ...],
    flow: str | None, is_json: bool, **given: Any,
) -> None:  # fmt: skip
    """Submit a task to JOB, room:category:name, and print its id.

    A VALUE is JSON if it parses as such, else text: n=3 is a number, name=World is text, n='"3"' is text again.
    """
    if wait_seconds is not None and not wait:
        raise click.UsageError("--timeout: only allowed with --wait; a run's own timeout is --run-timeout")
    options = options_of(given)
    body = payload_of(arguments, payload)
    bonds = bonds_of(depends_on, argument_from, flow)
    with _hinting(arguments):
        asyncio.run(
            _submit(job, body, options, bonds, room=room, wait=wait, wait_seconds=wait_seconds, is_json=is_json)
        )


@contextmanager
def _hinting(arguments: tuple[str, ...]) -> Iterator[None]:
    """If an argument is refused because it should be text, but parses as JSON, say how it is written as text."""
    try:
        yield
    except (InvalidPayload, InvalidArguments) as error:
        told = str(error)
        for argument in arguments:
            name, text = pair(argument, "KEY=VALUE")
            if f"payload.{name}: " in told and _IS_NO_TEXT in told and not isinstance(value_of(text), str):
                written = shlex.quote(f"{name}={json.dumps(text)}")
                raise click.ClickException(f"{told}; as text it is written {written}") from error
        raise


async def _submit(
    job: str, payload: dict[str, Any], options: "Options", bonds: Bonds, *, room: str | None, wait: bool,
    wait_seconds: float | None, is_json: bool,
) -> None:  # fmt: skip
    async with open_client(room) as client:
        bound = await bonds.over(client, options)
        handle = await client.submit_raw(job, payload, options=bound, arguments_from=bonds.arguments_from, wait=wait)
        if wait:
            try:
                await _wait(handle, wait_seconds, is_json=is_json)
            except asyncio.CancelledError:
                # Stopped by Ctrl-C before the id was printed.
                say(f"task {handle.id} has not ended yet; it was left as it is", err=True)
                raise
        elif is_json:
            print_json(handle.submitted)
        else:
            say(handle.id)


async def _wait(handle: "TaskHandle[Any]", seconds: float | None, *, is_json: bool) -> None:
    if is_json:
        async with _telling(handle):
            ended = await handle.wait(seconds)
        print_json(ended)
        if ended.status != "completed":
            raise SystemExit(1)
    else:
        async with _telling(handle):
            result = await handle.result(seconds)
        say_result(result if isinstance(result, str) else json.dumps(result, ensure_ascii=False))


@asynccontextmanager
async def _telling(handle: "TaskHandle[Any]") -> AsyncIterator[None]:
    """While waiting, print what the task waits for if it does not go on by itself, once for each change."""
    teller = asyncio.create_task(_tell(handle))
    try:
        yield
    finally:
        teller.cancel()
        with suppress(asyncio.CancelledError):
            await teller


async def _tell(handle: "TaskHandle[Any]") -> None:
    pause, before = FIRST_LOOK, None
    while True:
        await asyncio.sleep(pause)
        pause = min(1.5 * pause, LONGEST_PAUSE)
        # Connection errors are reported by the wait itself.
        with suppress(TreadleError):
            now = await blocking_reason(handle.client, await handle.get())
            if now is not None and now != before:
                say(f"task {handle.id} {now}", err=True)
            before = now


def payload_of(arguments: tuple[str, ...], payload: str | None) -> dict[str, Any]:
    """Return the payload given by KEY=VALUE arguments or `--payload`. Raises click's `UsageError`."""
    if payload is None:
        pairs = (pair(argument, "KEY=VALUE") for argument in arguments)
        return each_once(((name, value_of(text)) for name, text in pairs), "the argument")
    if arguments:
        raise click.UsageError("give either KEY=VALUE arguments or --payload, not both")
    try:
        body = parsed(payload)
    except ValueError as error:
        raise click.UsageError(f"--payload is not valid JSON: {error}") from None
    if not isinstance(body, dict):
        raise click.UsageError(f"--payload must be a JSON object, not {payload[:60]}")
    return body


def value_of(text: str) -> Any:
    """Return a value as JSON if it parses as such, else as text."""
    try:
        return parsed(text)
    except ValueError:
        return text
