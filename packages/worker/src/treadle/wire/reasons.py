"""What is wrong with a value that pydantic refuses, in words for its sender; and the patterns of texts."""

from collections.abc import Mapping
from typing import Any

from treadle.wire.amounts import amount, counted

UUID = r"^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$"

ID_BEGINNING = r"^([0-9a-fA-F]-?){1,32}$"
"""The beginning of a UUID."""

FAILURE_ID = r"^[0-9a-fA-F]{16}$"
"""The id of a group of failures."""

USER_NAME = r"^[A-Za-z0-9._-]{1,64}$"
"""A token's name."""

SHA256 = "^[0-9a-f]{64}$"

TRACE_PARENT = r"^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$"

TRACE_MEMBERS = r"^[ -~\t]*$"

_MATCHING = {
    UUID: "write a UUID, such as 019aa5c0-0000-7000-8000-000000000001",
    ID_BEGINNING: "write the beginning of an id, such as 019aa5c0: hexadecimal digits and dashes",
    FAILURE_ID: "write the id of a group of failures: 16 hexadecimal digits",
    USER_NAME: "write 1 to 64 letters, digits, dots, underscores and dashes",
    TRACE_PARENT: "write a W3C traceparent, such as 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    TRACE_MEMBERS: "write printable ASCII characters",
    SHA256: "write a SHA-256 digest: 64 hexadecimal digits in lower case",
}

_TIME = "write the time as 2026-01-31T12:00:00Z, or with an offset such as +01:00, whose + is %2B in a URL"

_KINDS = {
    "dict_type": "write an object, {…}",
    "model_type": "write an object, {…}",
    "model_attributes_type": "write an object, {…}",
    "list_type": "write a list, […]",
    "string_type": "write a text",
    "bool_type": "write true or false",
    "bool_parsing": "write true or false",
    "int_type": "write a whole number",
    "int_parsing": "write a whole number",
    "int_from_float": "write a whole number",
    "float_type": "write a number",
    "float_parsing": "write a number",
    "finite_number": "write a finite number",
    "datetime_type": _TIME,
    "datetime_parsing": _TIME,
    "datetime_from_date_parsing": _TIME,
    "timezone_aware": "write the time with its zone, such as 2026-01-31T12:00:00Z",
}

_BOUNDS = {
    "greater_than": ("gt", "write more than {}"),
    "greater_than_equal": ("ge", "write {} or more"),
    "less_than": ("lt", "write less than {}"),
    "less_than_equal": ("le", "write at most {}"),
    "literal_error": ("expected", "write {}"),
    "enum": ("expected", "write {}"),
}

_LENGTHS = {
    "string_too_short": ("min_length", "at least", "character"),
    "string_too_long": ("max_length", "at most", "character"),
    "too_short": ("min_length", "at least", "item"),
    "too_long": ("max_length", "at most", "item"),
}


def reason(found: Mapping[str, Any]) -> str:
    """Return the message of one of pydantic's errors (an item of `ValidationError.errors()`), without its internals.

    Names of classes, patterns and the words "Value error" tell nobody what to write. The message for an unknown field
    is pydantic's own, because older clients look for it.
    """
    kind, said = found["type"], str(found["msg"])
    if kind == "value_error":
        return said.removeprefix("Value error, ")
    if kind in _KINDS:
        return _KINDS[kind]
    # With a thousand errors and more, pydantic leaves out the contexts.
    context = found.get("ctx", {})
    if kind in _BOUNDS and (bound := context.get(_BOUNDS[kind][0])) is not None:
        return _BOUNDS[kind][1].format(amount(bound) if isinstance(bound, float) else bound)
    if kind in _LENGTHS and (length := context.get(_LENGTHS[kind][0])) is not None:
        return f"write {_LENGTHS[kind][1]} {counted(length, _LENGTHS[kind][2])}"
    if kind == "string_pattern_mismatch":
        return next((words for pattern, words in _MATCHING.items() if f"'{pattern}'" in said), said)
    return said.replace(" after validation", "")
