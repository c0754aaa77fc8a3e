"""JSON Schemas compiled, and what is wrong with a payload; whoever calls bounds the work (domain/check_cost.py)."""

from itertools import islice
from typing import Any

import jsonschema_rs

MOST_ERRORS = 10
LONGEST = 300
"""Characters of a message."""
LONGEST_PART = 100
"""Characters of one part of the path to what is wrong."""

# Look-around patterns are allowed but bounded, so that no pattern and payload can keep the server busy.
_PATTERNS = jsonschema_rs.FancyRegexOptions(backtrack_limit=10_000, size_limit=1_000_000, dfa_size_limit=1_000_000)


def compiled(schema: dict[str, Any]) -> jsonschema_rs.Validator:
    """Return the schema's validator; a reference to another document is refused and never fetched.

    Raises `ValueError` with the reason when it is no valid JSON Schema.
    """
    try:
        return jsonschema_rs.validator_for(schema, offline=True, pattern_options=_PATTERNS)
    except (ValueError, TypeError, jsonschema_rs.ReferencingError) as error:
        message = getattr(error, "message", None) or str(error).partition("\n")[0]
        place = ".".join(str(part)[:LONGEST_PART] for part in getattr(error, "instance_path", ()))
        raise ValueError(f"{place}: {message}"[:LONGEST] if place else message[:LONGEST]) from None


def errors_of(validator: jsonschema_rs.Validator, payload: Any) -> list[dict[str, Any]]:
    """Return the first errors of a payload as a problem tells them; the library finds all of them first."""
    return [
        {
            "loc": ["payload", *(str(part)[:LONGEST_PART] for part in error.instance_path)],
            "msg": error.message[:LONGEST],
            "type": "schema",
        }
        for error in islice(validator.iter_errors(payload), MOST_ERRORS)
    ]
