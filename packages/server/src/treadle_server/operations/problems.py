"""Errors as RFC 9457 problems: pydantic's and the server's own."""

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
"""If there are more findings, only the first are listed: a million, for as many unknown fields, would take 3 s."""


def from_validation(error: ValidationError) -> InvalidRoomId | ValidationFailed:
    """Return pydantic's findings as a problem: where and what, without the values. A wrong room has its own problem."""
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
    """Return the place of a finding; pydantic adds `[key]` to the place of a wrong key."""
    if loc[-1:] == ["[key]"]:
        return f"{'.'.join(loc[:-2])}: the key {loc[-2]!r}"
    return ".".join(loc)


def _listed(error: ValidationError) -> Sequence[Mapping[str, Any]]:
    """Return all findings, or the first of many, which pydantic writes as text in a tenth of the time."""
    if error.error_count() <= _MANY:
        return error.errors(include_url=False, include_input=False)
    text = error.json(include_url=False, include_context=False, include_input=False)
    found: list[dict[str, Any]] = []
    decoder, at = json.JSONDecoder(), 1
    while len(found) < _MOST_ERRORS:
        item, end = decoder.raw_decode(text, at)
        found.append(item)
        # After the comma.
        at = end + 1
    return found


def bad_value(found: Fault) -> ValidationFailed:
    """Return the problem of a value that can't be stored."""
    return ValidationFailed(str(found), errors=[{"loc": [found.place], "msg": found.why, "type": "bad_value"}])


def problem_body(error: TreadleError, instance: str | None = None) -> dict[str, Any]:
    """Return the problem's members; text that can't be sent as UTF-8 is replaced."""
    body = error.as_problem()
    body["detail"] = sendable(error.detail)
    if instance is not None:
        body["instance"] = sendable(instance)
    _let_go_of_frames(error)
    return body


def _let_go_of_frames(error: BaseException) -> None:
    """Drop the error's tracebacks: nobody looks at them, since this is not a defect, whose traceback is logged.

    A frame that keeps the error, for instance in a list of several, is kept by its traceback in turn, with the request
    and its body. Only the garbage collector would free them, some 600 wrong payloads later.
    """
    each: BaseException | None = error
    while each is not None:
        each.__traceback__ = None
        each = each.__context__


def sendable(text: str) -> str:
    """Return the text with characters that UTF-8 can't encode, such as half a surrogate pair, replaced."""
    return text.encode("utf-8", "replace").decode("utf-8")
