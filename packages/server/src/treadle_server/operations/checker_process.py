"""Checks payloads aside from the event loop, in one small process that is killed when a check has no end."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson

from treadle_server.errors import InvalidPayload, TooManyRequests, TreadleError, ValidationFailed

log = logging.getLogger(__name__)

PORTION = 100
"""Payloads that are checked in one go; between two portions others have their turn."""

MOST_WAITING = 1000
"""Calls that may wait for their turn; further ones are told to come again."""

WAIT_SECONDS = 10.0
"""How long a call waits for its turn at most."""

MOST_ENDLESS = 2
"""Payloads of one call whose check may have no end; what comes behind them is not tried."""

ANSWER_SECONDS = 10.0
"""How long the process may be silent. It ends a check after a second of work; a busy machine takes longer for that."""

START_SECONDS = 30.0

LONGEST_ANSWER = 1024 * 1024
"""Bytes; ten errors with long paths have less."""

_MEND = (
    "its anyOf, oneOf, allOf, not or references lead to the same value again and again. Give each alternative of a"
    " union a required property with a constant of its own (a discriminator) that stands first, refer to a definition"
    " once, or nest less deeply"
)
_ENDLESS = f"payload: its check took more than a second of work. The job's schema branches too much: {_MEND}"
_NOWHERE = f"payload: it does not satisfy the job's schema; to find out where takes too long: it is large, or {_MEND}"
_UNCOMPILED = "schema: it takes more than a second to compile; make it smaller, above all its patterns with counts"

CheckOutcome = TreadleError | None
"""None: the payload is valid."""


class CheckerProcess:
    """The process, started when it is first needed, and the queue before it."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._turn = asyncio.Lock()
        self._waiting = 0
        self._is_closed = False

    async def compile(self, schema: str) -> None:
        """Compile a schema. Raises `ValidationFailed` when it is none or takes too long, or `TooManyRequests`."""
        if (await self._in_turn(schema, []))[-1]["end"] != "well":
            raise ValidationFailed(_UNCOMPILED)

    async def check(self, schema: str, payloads: Sequence[str]) -> list[CheckOutcome]:
        """Check payloads, JSON texts, and return what is wrong with each: `InvalidPayload` or `TooManyRequests`.

        Nothing is tried behind `MOST_ENDLESS` payloads whose check had to be ended, and nothing explained behind one
        whose errors could not be collected in time. Raises `TooManyRequests` when the turn of the call does not come
        in time, or `ValidationFailed` for a schema that is none.
        """
        outcomes: list[CheckOutcome] = []
        endless, explains = 0, True
        while len(outcomes) < len(payloads) and endless < MOST_ENDLESS:
            start = len(outcomes)
            answers = await self._in_turn(schema, payloads[start : start + PORTION], explains=explains)
            outcomes += _outcomes(answers)
            if answers[-1]["end"] != "well":
                explains = explains and not _was_explaining(answers)
                endless += not _was_explaining(answers)
        return outcomes + [_untried() for _ in range(len(payloads) - len(outcomes))]

    async def close(self) -> None:
        """End the process, whatever it does, and start no other."""
        self._is_closed = True
        await self._end()

    async def _in_turn(self, schema: str, payloads: Sequence[str], *, explains: bool = True) -> list[dict[str, Any]]:
        """Return the answers of the process, the last of which says how it ended.

        Raises `TooManyRequests`, or `ValidationFailed` for a schema that is none.
        """
        if self._waiting >= MOST_WAITING:
            raise TooManyRequests(f"{MOST_WAITING} checks of payloads wait already; try again", retry_after=1)
        self._waiting += 1
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await self._turn.acquire()
        except TimeoutError:
            raise TooManyRequests("other checks of payloads take too long; try again", retry_after=1) from None
        finally:
            self._waiting -= 1
        try:
            request = orjson.dumps([schema, payloads, explains]) + b"\n"
            answers = await self._ask(request)
            if answers == [{"end": "died"}]:
                # Somebody else may have killed it.
                answers = await self._ask(request)
        except BaseException:
            # Whoever asked has gone, or waits no longer: the process may be in the midst of an answer.
            await self._end()
            raise
        finally:
            self._turn.release()
        if answers[-1]["end"] == "invalid":
            raise ValidationFailed(f"schema: not a valid JSON Schema: {answers[0]['why']}")
        return answers

    async def _ask(self, request: bytes) -> list[dict[str, Any]]:
        answers: list[dict[str, Any]] = []
        try:
            process = await self._running()
            assert process.stdin is not None
            process.stdin.write(request)
            async with asyncio.timeout(ANSWER_SECONDS):
                await process.stdin.drain()
            while not answers or "end" not in answers[-1]:
                answers.append(await _answer(process, ANSWER_SECONDS))
        except (EOFError, ConnectionError):
            answers.append({"end": await self._end()})
        except (TimeoutError, OSError) as error:
            log.warning("payloads can't be checked aside: %s", str(error) or "no answer; the machine may be too busy")
            raise TooManyRequests("the payload can't be checked now; try again", retry_after=1) from None
        return answers

    async def _running(self) -> asyncio.subprocess.Process:
        """Return the process, and start one unless it runs."""
        if self._is_closed:
            raise OSError("the server is going away")
        if self._process is None or self._process.returncode is not None:
            self._process = await _start()
            if self._is_closed:
                # While it started, nobody could end it.
                await self._end()
                raise OSError("the server is going away")
            try:
                await _answer(self._process, START_SECONDS)
            except EOFError:
                raise OSError("the process that checks them ended as it started") from None
        return self._process

    async def _end(self) -> str:
        """Kill the process, and return how it ended, as it says itself of its fork."""
        process, self._process = self._process, None
        if process is None:
            return "died"
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        code = await process.wait()
        return "slow" if code == -signal.SIGPROF else "died"


async def _start() -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",
        "-m",
        "treadle_server.checker",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=LONGEST_ANSWER,
        env=_environment(),
        cwd="/",
        # A group of its own: killing it ends its fork too, and Ctrl-C reaches the server alone.
        start_new_session=True,
    )


async def _answer(process: asyncio.subprocess.Process, seconds: float) -> dict[str, Any]:
    """Return the next answer. Raises `EOFError` when the process has ended, or `TimeoutError`."""
    assert process.stdout is not None
    async with asyncio.timeout(seconds):
        line = await process.stdout.readline()
    if not line.endswith(b"\n"):
        raise EOFError
    answer: dict[str, Any] = orjson.loads(line)
    return answer


def _outcomes(answers: list[dict[str, Any]]) -> list[CheckOutcome]:
    """Return the outcomes of the payloads that were looked at."""
    outcomes: list[CheckOutcome] = []
    for answer in answers:
        if "valid" in answer:
            outcomes.append(None if answer["valid"] else InvalidPayload(_NOWHERE))
        elif "errors" in answer:
            outcomes[-1] = refusal(answer["errors"])
    if answers[-1]["end"] != "well" and not _was_explaining(answers):
        outcomes.append(InvalidPayload(_ENDLESS))
    return outcomes


def _was_explaining(answers: list[dict[str, Any]]) -> bool:
    """Return whether what ended was no check, but the search for the errors of a payload that is invalid."""
    return len(answers) > 1 and answers[-2].get("valid") is False


def refusal(errors: list[dict[str, Any]]) -> InvalidPayload:
    """Return the problem of a payload that does not satisfy its schema."""
    if not errors:
        return InvalidPayload("payload: it does not satisfy the job's schema")
    first = errors[0]
    return InvalidPayload(f"{'.'.join(first['loc'])}: {first['msg']}", errors=errors)


def _untried() -> TooManyRequests:
    return TooManyRequests("payload: not checked, for those before it took too long; submit it again", retry_after=1)


def _environment() -> dict[str, str]:
    """Return the environment of the process: the server's without its settings, and where its modules are."""
    ours = {name: value for name, value in os.environ.items() if not name.upper().startswith("TREADLE_")}
    here = str(Path.cwd())
    paths = dict.fromkeys([*(path for path in sys.path if path not in ("", here)), str(Path(__file__).parents[2])])
    return ours | {"PYTHONPATH": os.pathsep.join(paths)}
