"""Full examples of everything that crosses the wire, made from the models' own schemas.

`python -m tests.golden.samples` writes them for the version that is installed: once, when it is released. From then on
the file says what that version sends, and is never changed; before that it is written anew with each change.
"""

import importlib
import json
import pkgutil
from pathlib import Path
from typing import Any

from pydantic import BaseModel

import treadle.wire
from treadle import __version__
from treadle.wire.fields import Model, Request

HERE = Path(__file__).parent

NAMED: dict[str, Any] = {
    "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    "job": "lab:tasks:add",
    "job_name": "lab:tasks:add",
    "full_name": "lab:tasks:add",
    "room": "lab",
    "room_id": "lab",
    "name": "add",
    "category": "tasks",
    "cron": "0 3 * * *",
    "zone": "Europe/Berlin",
    "content_type": "text/plain",
    "sha256": "00" * 32,
    "url": "https://example.org/hook",
    "id": "0199a5b4-0000-7000-8000-000000000001",
}
"""What a field of this name holds, where its schema says no more than that it is a text."""

UUID = "0199a5b4-0000-7000-8000-000000000002"

NOT_TOGETHER: dict[str, tuple[str, ...]] = {
    "BulkAction": ("filter",),
    "Every": ("recent", "since"),
    "ScheduleContent": ("interval",),
    "SchedulePatch": ("interval",),
    "SchedulePut": ("interval",),
    "TaskOfMany": ("scheduled_at",),
    "TaskChanges": ("scheduled_at",),
    "TaskEdit": ("scheduled_at",),
    "TaskPatch": ("status", "run_id", "result", "error", "traceback", "reason", "usage", "scheduled_at"),
    "TaskSubmit": ("scheduled_at",),
    "TaskTimes": ("scheduled_at",),
    "Timed": ("scheduled_at",),
    "Window": ("after", "before"),
}
"""Fields that may not be given beside others."""


CHOSEN: dict[tuple[str, str], Any] = {
    ("BulkAction", "if_versions"): {NAMED["id"]: 1},
    ("Prune", "status"): ["completed"],
    ("SchedulePut", "deadline"): 60.0,
    ("TaskOfMany", "arguments_from"): {"parts": "key"},
    ("TaskSubmit", "arguments_from"): {"parts": "key"},
    ("TaskFilter", "failure"): "0123456789abcdef",
    ("WebhookSet", "statuses"): ["failed"],
}
"""What a field of a model holds, where not everything that its schema allows is right."""


def wire_models() -> dict[str, type[BaseModel]]:
    """Return each model that crosses the wire, by its name."""
    found: dict[str, type[BaseModel]] = {}
    for module in pkgutil.iter_modules(treadle.wire.__path__, "treadle.wire."):
        for name, value in vars(importlib.import_module(module.name)).items():
            is_model = isinstance(value, type) and issubclass(value, BaseModel) and value not in {Model, Request}
            if is_model and value.__module__ == module.name and not name.startswith("_"):
                found[name] = value
    return found


def sample(name: str, model: type[BaseModel]) -> Any:
    """Return an example of the model in which every field stands that may."""
    schema = model.model_json_schema()
    return _of(schema, "", schema.get("$defs", {}), name)


def _of(schema: dict[str, Any], name: str, known: dict[str, Any], model: str = "") -> Any:
    if "$ref" in schema:
        target = schema["$ref"].rsplit("/", 1)[1]
        return _of(known[target], name, known, target)
    for several in ("anyOf", "oneOf", "allOf"):
        if several in schema:
            return _of(next(one for one in schema[several] if one.get("type") != "null"), name, known)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][0]
    match schema.get("type"):
        case "object" if "properties" in schema:
            out = NOT_TOGETHER.get(model, ())
            given = {key: one for key, one in schema["properties"].items() if key not in out}
            return {key: CHOSEN.get((model, key)) or _of(one, key, known) for key, one in given.items()}
        case "object":
            more = schema.get("additionalProperties")
            return {"key": _of(more, "", known) if isinstance(more, dict) else 1}
        case "array":
            return [_of(schema.get("items", {}), name.removesuffix("s"), known)]
        case "integer":
            return max(1, schema.get("minimum", 1))
        case "number":
            return 0.5 if schema.get("maximum") == 1 else 1.5
        case "boolean":
            return True
        case "string":
            return _text(schema, name)
    return {"any": [1, "text", None]}


def _text(schema: dict[str, Any], name: str) -> str:
    if schema.get("format") == "date-time":
        return "2026-11-22T12:00:00Z"
    if name in NAMED:
        return str(NAMED[name])
    if "pattern" in schema or schema.get("format") == "uuid" or name.endswith("_id") or name == "key":
        return UUID
    return f"some {name}"


def main() -> None:
    """Write the examples of this version."""
    examples = {name: sample(name, model) for name, model in sorted(wire_models().items())}
    written = {name: written_by(wire_models()[name], one) for name, one in examples.items()}
    (HERE / f"{__version__}.json").write_text(json.dumps(written, indent=1) + "\n")


def written_by(model: type[BaseModel], example: Any) -> Any:
    """Return what the model writes of what it has read."""
    read = model.model_validate_json(json.dumps(example))
    return json.loads(read.model_dump_json(exclude_unset=True, by_alias=True))


if __name__ == "__main__":
    main()
