"""The process that checks payloads outside the server (operations/checker_process.py). It may be killed at any time.

It reads requests from its standard input, one line of JSON each, and answers in lines on its standard output. A fork
checks each portion of payloads, and a system timer kills the fork if it works for too long, because no Python code can
run during a check. This module imports little, to keep the process small.
"""

import gc
import json
import os
import resource
import signal
import sys
from collections import OrderedDict
from contextlib import suppress
from typing import Any

import jsonschema_rs
import orjson

from treadle_server.domain.payloads import compiled, errors_of

CHECK_SECONDS = 1.0
"""Processor time to check one payload, or to compile one schema."""

EXPLAIN_SECONDS = 0.25
"""Processor time to find out what is wrong with an invalid payload."""

MOST_MEMORY = 1024**3
"""Bytes of address space."""

MOST_VALIDATORS = 50


def main() -> None:
    """Answer requests until the server closes the input."""
    # These may be sent to every process of the server: this one still answers, and ends with its input.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    kept: OrderedDict[str, jsonschema_rs.Validator] = OrderedDict()
    _say({"ready": True})
    for line in sys.stdin.buffer:
        schema, payloads, explains = orjson.loads(line)
        _say({"end": _served(kept, schema, payloads, explains=explains)})


def _served(
    kept: OrderedDict[str, jsonschema_rs.Validator], schema: str, payloads: list[str], *, explains: bool
) -> str:
    """Compile the schema unless it is in memory, check the payloads, and return how that ended."""
    if schema not in kept:
        _allow(CHECK_SECONDS)
        try:
            validator = compiled(json.loads(schema))
        except ValueError as error:
            _say({"why": str(error)})
            return "invalid"
        finally:
            _allow(0)
        kept[schema] = validator
        if len(kept) > MOST_VALIDATORS:
            kept.popitem(last=False)
    kept.move_to_end(schema)
    return _check_in_fork(kept[schema], payloads, explains=explains) if payloads else "well"


def _check_in_fork(validator: jsonschema_rs.Validator, payloads: list[str], *, explains: bool) -> str:
    """Check the payloads in a fork; return how it ended: `well`, `slow` or `died`."""
    pid = os.fork()
    if pid == 0:
        try:
            _check(validator, payloads, explains=explains)
            os._exit(0)
        finally:
            os._exit(1)
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGPROF:
        return "slow"
    return "well" if status == 0 else "died"


def _check(validator: jsonschema_rs.Validator, payloads: list[str], *, explains: bool) -> None:
    # The garbage collector would go through the payload again and again: 15 MB of lists took three times as long.
    gc.disable()
    for text in payloads:
        # Parsing takes time in proportion to the size, whatever the schema is, so it is not limited.
        _allow(0)
        payload = json.loads(text)
        _allow(CHECK_SECONDS)
        is_valid = validator.is_valid(payload)
        _say({"valid": is_valid})
        if explains and not is_valid:
            _allow(EXPLAIN_SECONDS)
            _say({"errors": errors_of(validator, payload)})


def _allow(seconds: float) -> None:
    """Let the system kill this process after so much processor time from now on; 0: no limit."""
    signal.setitimer(signal.ITIMER_PROF, seconds)


def _say(answer: dict[str, Any]) -> None:
    sys.stdout.buffer.write(orjson.dumps(answer) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
