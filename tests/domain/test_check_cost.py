"""N2: a static look tells schemas whose check may have no end from those that are checked at once."""

from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypeAliasType

from tests.operations.heavy import twice, union
from treadle_server.domain.check_cost import MOST_TEXT, check_cost


class Part(BaseModel):
    name: str | None = None
    sizes: list[float] = []
    kind: Literal["a", "b"] = "a"


class Whole(BaseModel):
    part: Part
    parts: list[Part]
    by_name: dict[str, Part]
    either: Part | int | None = None


class Tree(BaseModel):
    left: "Tree | None" = None
    right: "Tree | None" = None
    children: list["Tree"] = []


Json = TypeAliasType("Json", "list[Json] | dict[str, Json] | str | int | None")


class Anything(BaseModel):
    value: Json


class One(BaseModel):
    kind: Literal["one"] = "one"
    children: list["Node"]


class Two(BaseModel):
    kind: Literal["two"] = "two"
    children: list["Node"]


Node = Annotated[One | Two, Field(discriminator="kind")]


class Root(BaseModel):
    node: Node


def cost(schema: Any) -> int:
    return check_cost(schema, 1000).check


@pytest.mark.parametrize("model", [Part, Whole, Tree, Anything])
def test_models_whose_values_are_walked_once_are_light(model: type[BaseModel]):
    found = check_cost(model.model_json_schema(), 1000)

    assert found.is_cheap
    assert found.visits < 20


REF = {"$ref": "#"}
HEAVY: dict[str, Any] = {
    "a recursive union": union(),
    "a recursive union with a discriminator": Root.model_json_schema(),
    "references that refer twice": twice(24),
    "itself in place": REF,
    "itself in place, by a detour": {"allOf": [{"not": REF}]},
    "two lists of itself": {"anyOf": [{"items": REF}, {"items": REF}]},
    "itself under two patterns": {"patternProperties": {"a": REF, "^a": REF}},
    "itself by name and by pattern": {"properties": {"a": REF}, "patternProperties": {"a": REF}},
    "itself as item and contained": {"items": REF, "contains": REF},
    "unevaluated": {"unevaluatedProperties": False},
    "a dynamic reference": {"$dynamicRef": "#x"},
    "another document": {"$ref": "https://example.org/schema"},
    "an identifier within": {"properties": {"a": {"$id": "https://example.org/a"}}},
    "a reference to nothing": {"$ref": "#/$defs/none"},
    "counts within counts": {"pattern": "((a{100}){100}){100}"},
    "a format that compiles what it checks": {"format": "regex"},
    "no schema at all": {"allOf": [7]},
}


@pytest.mark.parametrize("name", HEAVY)
def test_what_may_branch_or_is_not_understood_is_heavy(name: str):
    assert not check_cost(HEAVY[name], 1000).is_cheap


def test_a_long_schema_is_heavy_unseen():
    assert not check_cost({}, MOST_TEXT + 1).is_cheap


def test_alternatives_add_up_and_members_of_different_names_do_not():
    four = {"anyOf": [{"type": "string"}] * 3}
    members = {"properties": {name: {"type": "string"} for name in "abcdefgh"}}

    # The same place is counted as often as it is met, the union itself too.
    assert cost(four) == 4
    assert cost(members) == 1


def test_patterns_cost_and_those_that_look_around_cost_more():
    assert 10 < cost({"pattern": "^[a-z]+$"}) < cost({"pattern": "(?=a)[a-z]+$"})


def test_references_to_the_next_level_are_not_taken_for_branches():
    chain = {
        f"d{i}": {"properties": {"a": {"$ref": f"#/$defs/d{i + 1}"}, "b": {"$ref": f"#/$defs/d{i + 1}"}}}
        for i in range(20)
    }

    assert cost({"$ref": "#/$defs/d0", "$defs": {**chain, "d20": {"type": "integer"}}}) == 2
