"""Every number of every command is a finite one."""

from collections.abc import Iterator
from typing import Any

import click
import pytest

from treadle.cli.group import treadle


def numbers_of(command: click.Command, path: str) -> Iterator[Any]:
    for param in command.params:
        if isinstance(param.type, click.types.FloatParamType):
            yield pytest.param(param, id=f"{path} {param.opts[0]}")
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            yield from numbers_of(child, f"{path} {name}")


NUMBERS = [*numbers_of(treadle, "treadle")]


@pytest.mark.parametrize("given", ["nan", "inf", "-inf"])
@pytest.mark.parametrize("param", NUMBERS)
def test_a_number_of_the_command_line_is_finite(param: click.Parameter, given: str) -> None:
    """`treadle bench --minutes nan` began to measure, for ever."""
    with pytest.raises(click.BadParameter, match=f"'{given}' is not a (finite number|duration)|not in the range"):
        param.type_cast_value(click.Context(treadle), given)


def test_there_are_numbers_of_the_command_line_to_look_at() -> None:
    assert {"treadle bench --minutes", "treadle watch --speed", "treadle submit --budget"} <= {
        str(number.id) for number in NUMBERS
    }
