"""Compiles JSON Schemas and finds the errors of payloads; the caller bounds the work (domain/check_cost.py)."""

from itertools import islice
from typing import Any

import jsonschema_rs

MOST_ERRORS = 10
LONGEST = 300
"""The longest message, in characters."""
LONGEST_PART = 100
"""The longest part of the path to an error, in characters."""

# Look-around patterns are allowed but bounded, so that no pattern and payload can keep the server busy.
_PATTERNS = jsonschema_rs.FancyRegexOptions(backtrack_limit=10_000, size_limit=1_000_000, dfa_size_limit=1_000_000)


def compiled(schema: dict[str, Any]) -> jsonschema_rs.Validator:
    """Return the schema's validator; a reference to another document is refused and never fetched.

    Raises `ValueError` with the reason if it is not a valid JSON Schema.
    """
    try:
        return jsonschema_rs.validator_for(schema, offline=True, pattern_options=_PATTERNS)
    except (ValueError, TypeError, jsonschema_rs.ReferencingError) as error:
        message = getattr(error, "message", None) or str(error).partition("\n")[0]
        place = ".".join(str(part)[:LONGEST_PART] for part in getattr(error, "instance_path", ()))
        raise ValueError(f"{place}: {message}"[:LONGEST] if place else message[:LONGEST]) from None


def errors_of(validator: jsonschema_rs.Validator, payload: Any) -> list[dict[str, Any]]:
    """Return the first errors of a payload in the form of a problem; the library finds all of them first."""
    return [
        {
            "loc": ["payload", *(str(part)[:LONGEST_PART] for part in error.instance_path)],
            "msg": error.message[:LONGEST],
            "type": "schema",
        }
        for error in islice(validator.iter_errors(payload), MOST_ERRORS)
    ]
