"""What is wrong with a value that pydantic refuses, in words for who sent it; and the patterns of texts."""

from collections.abc import Mapping
from typing import Any

UUID = r"^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$"

ID_BEGINNING = r"^([0-9a-fA-F]-?){1,32}$"
"""How a UUID begins."""

FAILURE_ID = r"^[0-9a-fA-F]{16}$"
"""The id of a group of failures."""

USER_NAME = r"^[A-Za-z0-9._-]{1,64}$"
"""A token's name."""

SHA256 = "^[0-9a-f]{64}$"

_MATCHING = {
    UUID: "write a UUID, as 019aa5c0-0000-7000-8000-000000000001",
    ID_BEGINNING: "write how an id begins, as 019aa5c0: hexadecimal digits, and - between them",
    FAILURE_ID: "write the id of a group of failures: 16 hexadecimal digits",
    USER_NAME: "write 1 to 64 letters, digits, dots, underscores and dashes",
    SHA256: "write a SHA-256 digest: 64 hexadecimal digits in lower case",
}

_OBJECTS = frozenset({"dict_type", "model_type", "model_attributes_type"})


def reason(found: Mapping[str, Any]) -> str:
    """Return what one of pydantic's findings says (an item of `ValidationError.errors()`), without what is its own.

    Names of classes, patterns and the words "Value error" tell nobody what to write. That a field is unknown stays in
    pydantic's words: older clients look for them.
    """
    kind, said = found["type"], str(found["msg"])
    if kind == "value_error":
        return said.removeprefix("Value error, ")
    if kind in _OBJECTS:
        return "write an object, {…}"
    if kind == "timezone_aware":
        return "write the time with its zone, as 2026-01-31T12:00:00Z"
    if kind == "string_pattern_mismatch":
        return next((words for pattern, words in _MATCHING.items() if f"'{pattern}'" in said), said)
    return said.replace(" after validation", "")
