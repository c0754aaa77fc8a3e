"""Annotations that name what is not there yet: each Python has its own way to write them without quotes."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import TypeVar

import pytest
from pydantic import BaseModel

from treadle import Worker, errors, task

LATE = "" if sys.version_info >= (3, 14) else "from __future__ import annotations\n"
"""What makes all annotations of a module be evaluated late, as those of Python 3.14 are by themselves (PEP 649)."""

MODULE = """
from dataclasses import dataclass
from typing import TYPE_CHECKING
from treadle import task
if TYPE_CHECKING:
    from decimal import Decimal
    from treadle import Context

@task
async def takes(ctx: Context, one: Later, *, several: list[Later] = (), some: Later | None = None) -> dict[str, Later]:
    return {"one": one}

@task
def never(price: list[Decimal]) -> None: ...

async def middleware(ctx: Nobody, call_next: Nothing) -> Never: ...

def around():
    @dataclass
    class Inner:
        n: int

    @task
    def inner(one: Inner) -> Inner: ...

    return inner

@dataclass
class Later:
    n: int
"""


@pytest.fixture
def late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    path = tmp_path / "late_names.py"
    path.write_text(LATE + MODULE)
    spec = importlib.util.spec_from_file_location("late_names", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "late_names", module)
    spec.loader.exec_module(module)
    return module


def test_a_task_may_name_what_its_module_defines_further_down_t2(late: ModuleType) -> None:
    payload = late.takes.bind(late.Later(1), several=[late.Later(2)], some=late.Later(3)).payload

    assert payload == {"one": {"n": 1}, "several": [{"n": 2}], "some": {"n": 3}}
    assert late.takes.signature.arguments(payload) == {
        "one": late.Later(1),
        "several": [late.Later(2)],
        "some": late.Later(3),
    }
    assert late.takes.signature.wants_context
    assert late.takes.signature.returns.read({"one": {"n": 1}}) == {"one": late.Later(1)}


def test_a_task_in_a_function_may_name_what_stands_there_before_it_t2(late: ModuleType) -> None:
    assert late.around().signature.names == ("one",)
    assert "n" in str(late.around().signature.schema)


def test_what_is_imported_for_type_checkers_only_is_named_when_the_task_is_used(late: ModuleType) -> None:
    with pytest.raises(errors.DefinitionError, match=r"never: the annotation .*Decimal.* can't be resolved .*import"):
        late.never.bind([1])


def test_annotations_of_middleware_are_not_asked(late: ModuleType) -> None:
    Worker([late.takes], middleware=[late.middleware])


class Named(BaseModel):
    name: str


def test_a_type_parameter_of_the_function_itself_is_no_name_to_be_imported() -> None:
    """As of `def first[Item: Named](…)`, which has them from Python 3.12 on: they stand in no module."""

    def first(one, others):  # type: ignore[no-untyped-def]
        return one

    first.__annotations__ = {"one": "Item", "others": "list[Item]", "return": "Item"}
    first.__type_params__ = (TypeVar("Item", bound=Named),)  # type: ignore[attr-defined]
    made = task(first)

    assert made.bind(Named(name="a"), [{"name": "b"}]).payload == {"one": {"name": "a"}, "others": [{"name": "b"}]}
    assert made.signature.returns.read({"name": "a"}) == Named(name="a")
    with pytest.raises(errors.InvalidArguments, match=r"one\.name: Field required"):
        made.bind({}, [])
