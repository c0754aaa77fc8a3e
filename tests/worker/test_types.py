"""What a type checker knows of the SDK; pyright looks at the same file in `nox -s lint`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, get_origin, get_type_hints

import pytest
from mypy import api

from treadle.client import sync


def test_a_type_checker_sees_the_parameters_and_results_of_tasks() -> None:
    """T5."""
    settings = Path(__file__).parents[2] / "pyproject.toml"

    output, errors, code = api.run(
        ["--strict", "--warn-unused-ignores", "--config-file", str(settings), str(Path(__file__).with_name("typed.py"))]
    )

    assert (code, errors) == (0, ""), output


@pytest.mark.parametrize("of", [sync._of_client, sync._list_of_client, sync._of_handle])
def test_what_makes_a_blocking_method_says_that_it_is_bound(of: Callable[..., Any]) -> None:
    """Of a `Callable` in a class ty wanted the client as an argument, `client.get(client, id)`, in every call."""
    made = get_type_hints(of)["return"]

    assert hasattr(get_origin(made), "__get__"), made
