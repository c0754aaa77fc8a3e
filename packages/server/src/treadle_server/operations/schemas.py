"""JSON Schemas of jobs: checked when they are registered, compiled once, and applied to payloads.

Nearly all payloads are checked here, in microseconds. Checks that may take longer, judged by a static analysis of the
schema (domain/check_cost.py) and the size of the payload, run in another process (operations/checker_process.py).
"""

import json
from typing import Any

import jsonschema_rs

from treadle_server.domain.check_cost import CheckCost, check_cost
from treadle_server.domain.lately_used import LatelyUsed
from treadle_server.domain.payloads import compiled, errors_of
from treadle_server.errors import ValidationFailed
from treadle_server.operations.checker_process import refusal
from treadle_server.operations.values import text_of

MOST_VALIDATORS = 2000
"""The most compiled schemas in memory."""

MOST_COMPILED = 4 * 1024 * 1024
"""The most characters of these: compiled they take up to 33 times as much, the largest 2 MB each."""

MOST_LOOKS = 800_000
"""The most looks at a payload's bytes in the event loop, at 25 ns each: some 20 ms at worst."""

MOST_EXPLAINED = 4_000
"""The most looks for which errors are collected in the event loop: each may find one, at 20 microseconds."""


def compile_schema(schema: dict[str, Any]) -> jsonschema_rs.Validator:
    """Return the schema's validator. Raises `ValidationFailed` if it is not a valid JSON Schema."""
    try:
        return compiled(schema)
    except ValueError as error:
        raise ValidationFailed(f"schema: not a valid JSON Schema: {error}") from None


class Validators:
    """Checks payloads against schemas, which are compiled once and kept by their text."""

    def __init__(self) -> None:
        self._kept: LatelyUsed[str, tuple[jsonschema_rs.Validator | None, CheckCost]] = LatelyUsed(
            MOST_VALIDATORS, MOST_COMPILED
        )

    def is_checked(self, schema: str, payload: dict[str, Any], size: int) -> bool:
        """Check a payload whose text has `size` characters; return False if the checker process has to do it.

        Raises `InvalidPayload` with the path of what is wrong, or `ValidationFailed` for an invalid schema.
        """
        if len(schema) > MOST_LOOKS:
            return False
        validator, cost = self._kept.get(schema) or self._compile(schema)
        if validator is None or cost.check * size > MOST_LOOKS:
            return False
        if validator.is_valid(payload):
            return True
        if cost.visits * size > MOST_EXPLAINED:
            return False
        raise refusal(errors_of(validator, payload))

    def _compile(self, schema: str) -> tuple[jsonschema_rs.Validator | None, CheckCost]:
        """Return a schema's validator and its cost; a schema that is too costly is not compiled here."""
        document = json.loads(schema)  # orjson reads integers beyond 64 bits as floats, or not at all
        cost = check_cost(document, len(schema))
        known = compile_schema(document) if cost.is_cheap else None, cost
        self._kept.put(schema, known, len(schema))
        return known


def schema_without(schema: str, arguments: frozenset[str]) -> str:
    """Return a job's schema, as JSON text, that does not require these arguments: the worker adds and checks them.

    Raises `ValidationFailed` for an argument that the schema does not allow.
    """
    if not arguments:
        return schema
    document = json.loads(schema)
    known = document.get("properties", {})
    is_closed = document.get("additionalProperties") is False and "patternProperties" not in document
    if is_closed and (unknown := sorted(arguments - known.keys())):
        raise ValidationFailed(f"arguments_from.{unknown[0]}: the job has no such argument; it has {', '.join(known)}")
    if isinstance(required := document.get("required"), list):
        document["required"] = [name for name in required if name not in arguments]
    return text_of(document)
