"""JSON Schemas of jobs: checked when they are registered, compiled once, and applied to payloads."""

from collections import OrderedDict
from typing import Any

import jsonschema_rs

from treadle_server.errors import InvalidPayload, ValidationFailed

MOST_VALIDATORS = 2000
"""Compiled schemas that are kept; the one that was not used for longest goes first."""

_MOST_ERRORS = 10
_LONGEST = 300

# Look-around patterns are allowed but bounded, so that no pattern and payload can keep the server busy.
_PATTERNS = jsonschema_rs.FancyRegexOptions(backtrack_limit=10_000, size_limit=1_000_000, dfa_size_limit=1_000_000)


def compile_schema(schema: dict[str, Any]) -> jsonschema_rs.Validator:
    """Return the schema's validator; a reference to another document is refused and never fetched.

    Raises `ValidationFailed` when it is no valid JSON Schema.
    """
    try:
        return jsonschema_rs.validator_for(schema, offline=True, pattern_options=_PATTERNS)
    except (ValueError, TypeError, jsonschema_rs.ReferencingError) as error:
        message = getattr(error, "message", None) or str(error).partition("\n")[0]
        raise ValidationFailed(f"schema: not a valid JSON Schema: {message[:_LONGEST]}") from None


class Validators:
    """The compiled schemas of jobs, by the job's number and its schema's version."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[int, int], jsonschema_rs.Validator] = OrderedDict()

    def check(self, payload: dict[str, Any], job_num: int, version: int, schema: dict[str, Any] | None) -> None:
        """Check the payload. `schema` may be None when `has` says that it is kept.

        Raises `InvalidPayload` with the path of what is wrong.
        """
        validator = self._kept.get((job_num, version))
        if validator is None:
            assert schema is not None
            validator = self._kept[job_num, version] = compile_schema(schema)
            if len(self._kept) > MOST_VALIDATORS:
                self._kept.popitem(last=False)
        else:
            self._kept.move_to_end((job_num, version))
        if not validator.is_valid(payload):
            raise _refusal(validator, payload)

    def has(self, job_num: int, version: int) -> bool:
        """Return whether the schema is compiled already."""
        return (job_num, version) in self._kept


def _refusal(validator: jsonschema_rs.Validator, payload: dict[str, Any]) -> InvalidPayload:
    errors = []
    for error in validator.iter_errors(payload):
        errors.append(
            {
                "loc": ["payload", *(str(part) for part in error.instance_path)],
                "msg": error.message[:_LONGEST],
                "type": "schema",
            }
        )
        if len(errors) == _MOST_ERRORS:
            break
    if not errors:
        return InvalidPayload("payload: it does not satisfy the job's schema")
    first = errors[0]
    return InvalidPayload(f"{'.'.join(first['loc'])}: {first['msg']}", errors=errors)
