"""Errors as RFC 9457 problems: what pydantic found, and what the server refuses with."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from treadle.wire.names import InvalidRoom
from treadle.wire.reasons import reason
from treadle.wire.values import BadValue, Fault, below
from treadle_server.errors import InvalidRoomId, TreadleError, ValidationFailed

_MOST_ERRORS = 20
_LONGEST = 500

_MANY = 1000
"""Findings from on which the first alone are looked at: a million, of as many unknown fields, take 3 s to be listed."""


def from_validation(error: ValidationError) -> InvalidRoomId | ValidationFailed:
    """Return pydantic's findings as a problem: where and what, without the values; a room that is none is its own."""
    listed = _listed(error)
    for item in listed:
        cause = item.get("ctx", {}).get("error")
        if isinstance(cause, InvalidRoom):
            return InvalidRoomId(str(cause))
        if isinstance(cause, BadValue):
            return bad_value(below(item["loc"], cause.fault))
    found = [
        {"loc": [sendable(str(part)) for part in item["loc"]], "msg": sendable(reason(item)), "type": item["type"]}
        for item in listed[:_MOST_ERRORS]
    ]
    first = found[0]
    place = _place_of(first["loc"])
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    message = f"{place}: {first['msg']}" if place else str(first["msg"])
    return ValidationFailed(message[:_LONGEST] + more, errors=found)


def _place_of(loc: Sequence[str]) -> str:
    """Return where something was found; of a name that is none pydantic says so behind it."""
    if loc[-1:] == ["[key]"]:
        return f"{'.'.join(loc[:-2])}: the key {loc[-2]!r}"
    return ".".join(loc)


def _listed(error: ValidationError) -> Sequence[Mapping[str, Any]]:
    """Return all findings, or the first ones of many, which pydantic writes as text in a tenth of the time."""
    if error.error_count() <= _MANY:
        return error.errors(include_url=False, include_input=False)
    text = error.json(include_url=False, include_context=False, include_input=False)
    found: list[dict[str, Any]] = []
    decoder, at = json.JSONDecoder(), 1
    while len(found) < _MOST_ERRORS:
        item, end = decoder.raw_decode(text, at)
        found.append(item)
        # Behind the comma.
        at = end + 1
    return found


def bad_value(found: Fault) -> ValidationFailed:
    """Return the problem of a value that can't be kept."""
    return ValidationFailed(str(found), errors=[{"loc": [found.place], "msg": found.why, "type": "bad_value"}])


def problem_body(error: TreadleError, instance: str | None = None) -> dict[str, Any]:
    """Return the problem's members, to be told; text that can't be sent as UTF-8 is replaced."""
    body = error.as_problem()
    body["detail"] = sendable(error.detail)
    if instance is not None:
        body["instance"] = sendable(instance)
    _let_go_of_frames(error)
    return body


def _let_go_of_frames(error: BaseException) -> None:
    """Drop the traces of what is told, which nobody looks at: of a defect the log has one, and this is none.

    A frame that keeps the error, to tell of several together or to say where it was, is kept by it, and with it the
    request and its body: nothing but the collector of cycles would free them, 600 wrong payloads later.
    """
    each: BaseException | None = error
    while each is not None:
        each.__traceback__ = None
        each = each.__context__


def sendable(text: str) -> str:
    """Return the text with what UTF-8 has no bytes for, such as half a surrogate pair, replaced."""
    return text.encode("utf-8", "replace").decode("utf-8")
