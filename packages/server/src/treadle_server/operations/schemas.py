"""JSON Schemas of jobs: checked when they are registered, compiled once, and applied to payloads.

Nearly all are checked here, in microseconds. What may take longer goes aside, by a static look at the schema
(domain/check_cost.py) and the size of the payload (operations/checker_process.py).
"""

from typing import Any

import jsonschema_rs
import orjson

from treadle_server.domain.check_cost import CheckCost, check_cost
from treadle_server.domain.lately_used import LatelyUsed
from treadle_server.domain.payloads import compiled, errors_of
from treadle_server.errors import ValidationFailed
from treadle_server.operations.checker_process import refusal
from treadle_server.operations.values import text_of

MOST_VALIDATORS = 2000
"""Compiled schemas that are kept."""

MOST_COMPILED = 4 * 1024 * 1024
"""Characters of these: compiled they take up to 33 times as much, 2 MB each of the largest."""

MOST_LOOKS = 800_000
"""Looks at a payload's bytes while others wait, 25 ns each: some 20 ms at worst."""

MOST_EXPLAINED = 4_000
"""Looks among which errors are collected while others wait: each of them may find one, at 20 microseconds."""


def compile_schema(schema: dict[str, Any]) -> jsonschema_rs.Validator:
    """Return the schema's validator. Raises `ValidationFailed` when it is no valid JSON Schema."""
    try:
        return compiled(schema)
    except ValueError as error:
        raise ValidationFailed(f"schema: not a valid JSON Schema: {error}") from None


class Validators:
    """Checks payloads by schemas, which are compiled once and kept under their text."""

    def __init__(self) -> None:
        self._kept: LatelyUsed[str, tuple[jsonschema_rs.Validator | None, CheckCost]] = LatelyUsed(
            MOST_VALIDATORS, MOST_COMPILED
        )

    def is_checked(self, schema: str, payload: dict[str, Any], size: int) -> bool:
        """Check a payload, whose text has `size` characters; return False when that must be done aside.

        Raises `InvalidPayload` with the path of what is wrong, or `ValidationFailed` for a schema that is none.
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
        """Return a schema's validator, and its cost; one that is too costly is not compiled here."""
        document = orjson.loads(schema)
        cost = check_cost(document, len(schema))
        known = compile_schema(document) if cost.is_cheap else None, cost
        self._kept.put(schema, known, len(schema))
        return known


def schema_without(schema: str, arguments: frozenset[str]) -> str:
    """Return a job's schema, JSON text, that does not require these arguments: the worker puts them in and checks them.

    Raises `ValidationFailed` for one that the schema does not admit.
    """
    if not arguments:
        return schema
    document = orjson.loads(schema)
    known = document.get("properties", {})
    is_closed = document.get("additionalProperties") is False and "patternProperties" not in document
    if is_closed and (unknown := sorted(arguments - known.keys())):
        raise ValidationFailed(f"arguments_from.{unknown[0]}: the job has no such argument; it has {', '.join(known)}")
    if isinstance(required := document.get("required"), list):
        document["required"] = [name for name in required if name not in arguments]
    return text_of(document)
