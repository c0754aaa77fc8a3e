"""Checks payloads outside the event loop, in one small process whose checks are killed if they take too long."""

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
"""Payloads that are checked in one go; between portions other requests have their turn."""

MOST_WAITING = 1000
"""Calls that may wait for their turn; further ones are told to try again."""

WAIT_SECONDS = 10.0
"""How long a call may wait for its turn."""

MOST_ENDLESS = 2
"""How many payloads of one call may take too long; those after them are not tried."""

ANSWER_SECONDS = 10.0
"""How long the process may be silent. It ends a check after a second of work, which takes longer on a busy machine."""

START_SECONDS = 30.0

LONGEST_ANSWER = 1024 * 1024
"""Bytes; ten errors with long paths take less."""

_MEND = (
    "its anyOf, oneOf, allOf, not or references check the same value again and again. Give each alternative of a"
    " union a required property with a constant of its own (a discriminator) as its first one, refer to a definition"
    " once, or nest less deeply"
)
_ENDLESS = f"payload: checking it took more than a second of work. The job's schema branches too much: {_MEND}"
_NOWHERE = f"payload: it does not satisfy the job's schema; finding out where takes too long: it is large, or {_MEND}"
_UNCOMPILED = "schema: compiling it takes more than a second; make it smaller, above all its patterns with counts"

CheckOutcome = TreadleError | None
"""None: the payload is valid."""


class CheckerProcess:
    """The process, which is started when it is first needed, and the calls that wait for it."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._turn = asyncio.Lock()
        self._waiting = 0
        self._is_closed = False

    async def compile(self, schema: str) -> None:
        """Compile a schema. Raises `ValidationFailed` if it is invalid or takes too long, or `TooManyRequests`."""
        if (await self._in_turn(schema, []))[-1]["end"] != "well":
            raise ValidationFailed(_UNCOMPILED)

    async def check(self, schema: str, payloads: Sequence[str]) -> list[CheckOutcome]:
        """Check payloads, which are JSON texts, and return what is wrong with each.

        That is `InvalidPayload`, or `TooManyRequests` for those that were not checked. Nothing is tried after
        `MOST_ENDLESS` checks that took too long, and nothing explained after one whose errors could not be collected
        in time. Raises `TooManyRequests` if the call has to wait too long, or `ValidationFailed` for an invalid schema.
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
        """End the process, whatever it is doing, and start no other."""
        self._is_closed = True
        await self._end()

    async def _in_turn(self, schema: str, payloads: Sequence[str], *, explains: bool = True) -> list[dict[str, Any]]:
        """Return the answers of the process; the last one says how the check ended.

        Raises `TooManyRequests`, or `ValidationFailed` for an invalid schema.
        """
        if self._waiting >= MOST_WAITING:
            raise TooManyRequests(f"{MOST_WAITING} payload checks are waiting already; try again", retry_after=1)
        self._waiting += 1
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await self._turn.acquire()
        except TimeoutError:
            raise TooManyRequests("other payload checks take too long; try again", retry_after=1) from None
        finally:
            self._waiting -= 1
        try:
            request = orjson.dumps([schema, payloads, explains]) + b"\n"
            answers = await self._ask(request)
            if answers == [{"end": "died"}]:
                # Something else may have killed it: try once more.
                answers = await self._ask(request)
        except BaseException:
            # The caller was cancelled or timed out, and the process may be in the middle of an answer.
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
            log.warning("the checker process failed: %s", str(error) or "no answer; the machine may be too busy")
            raise TooManyRequests("the payload can't be checked now; try again", retry_after=1) from None
        return answers

    async def _running(self) -> asyncio.subprocess.Process:
        """Return the process; start it unless it is running."""
        if self._is_closed:
            raise OSError("the server is going away")
        if self._process is None or self._process.returncode is not None:
            self._process = await _start()
            if self._is_closed:
                # `close` could not end it while it started.
                await self._end()
                raise OSError("the server is going away")
            try:
                await _answer(self._process, START_SECONDS)
            except EOFError:
                raise OSError("the checker process ended as it started") from None
        return self._process

    async def _end(self) -> str:
        """Kill the process, and return how it ended, in the words that it has for its fork."""
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
        # A process group of its own: killing it ends its fork too, and Ctrl-C reaches only the server.
        start_new_session=True,
    )


async def _answer(process: asyncio.subprocess.Process, seconds: float) -> dict[str, Any]:
    """Return the next answer. Raises `EOFError` if the process has ended, or `TimeoutError`."""
    assert process.stdout is not None
    async with asyncio.timeout(seconds):
        line = await process.stdout.readline()
    if not line.endswith(b"\n"):
        raise EOFError
    answer: dict[str, Any] = orjson.loads(line)
    return answer


def _outcomes(answers: list[dict[str, Any]]) -> list[CheckOutcome]:
    """Return the outcomes of the payloads that were checked."""
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
    """Return whether the process ended not in a check, but while it collected the errors of an invalid payload."""
    return len(answers) > 1 and answers[-2].get("valid") is False


def refusal(errors: list[dict[str, Any]]) -> InvalidPayload:
    """Return the problem of a payload that does not satisfy its schema."""
    if not errors:
        return InvalidPayload("payload: it does not satisfy the job's schema")
    first = errors[0]
    return InvalidPayload(f"{'.'.join(first['loc'])}: {first['msg']}", errors=errors)


def _untried() -> TooManyRequests:
    return TooManyRequests("payload: not checked, as those before it took too long; submit it again", retry_after=1)


def _environment() -> dict[str, str]:
    """Return the environment of the process: the server's without its settings, and where its modules are."""
    ours = {name: value for name, value in os.environ.items() if not name.upper().startswith("TREADLE_")}
    here = str(Path.cwd())
    paths = dict.fromkeys([*(path for path in sys.path if path not in ("", here)), str(Path(__file__).parents[2])])
    return ours | {"PYTHONPATH": os.pathsep.join(paths)}
