"""The JSON Schema of a task's payload, generated from the model that reads it; the server validates against it."""

import enum
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, create_model
from pydantic.json_schema import GenerateJsonSchema, JsonRef, JsonSchemaWarningKind
from pydantic_core import core_schema, to_jsonable_python

from treadle.wire.values import is_kept


def schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """Return the schema of a model's payload, without the model's name, so that a function may be renamed."""
    schema = model.model_json_schema(by_alias=True, schema_generator=_Schema)
    schema.pop("title", None)
    kept: dict[str, Any] = _with_kept_defaults(schema)
    return kept


def described(name: str, config: ConfigDict, fields: Mapping[str, Any]) -> type[BaseModel]:
    """Return a model whose schema can be generated. Raises whatever pydantic and the types raise."""
    model: type[BaseModel] = create_model(name, __config__=config, **fields)
    model.model_json_schema(by_alias=True, schema_generator=_Schema)
    return model


class _Schema(GenerateJsonSchema):
    """Generates the schema of what a model reads; a default that is not JSON is left out without a warning."""

    ignored_warning_kinds: set[JsonSchemaWarningKind] = {  # noqa: RUF012 - as pydantic declares it
        "skipped-choice",
        "non-serializable-default",
    }

    def enum_schema(self, schema: core_schema.EnumSchema) -> dict[str, Any]:
        """Describe an enum; flags may be combined, and pydantic lists only the single ones."""
        described = super().enum_schema(schema)
        if issubclass(schema["cls"], enum.Flag):
            described.pop("enum", None)
            described.pop("const", None)
        return described

    def dict_schema(self, schema: core_schema.DictSchema) -> dict[str, Any]:
        """Describe a dict, whose keys are text in JSON; for an `IntEnum` pydantic asks for numbers."""
        described = super().dict_schema(schema)
        if named := described.get("propertyNames", {}).get("$ref"):
            keys = self.get_schema_from_definitions(JsonRef(named)) or {}
            if keys.get("type") != "string":
                del described["propertyNames"]
        return described


def _with_kept_defaults(schema: Any) -> Any:
    """Return a schema without defaults that can't be kept, which the function has anyway; infinities become null."""
    if isinstance(schema, list):
        return [_with_kept_defaults(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    parts = {name: _with_kept_defaults(part) for name, part in schema.items()}
    # A property may also be called `default`; its schema can be kept.
    if "default" in parts and not is_kept(parts["default"]):
        finite = to_jsonable_python(parts.pop("default"), inf_nan_mode="null")
        if is_kept(finite):
            parts["default"] = finite
    return parts
