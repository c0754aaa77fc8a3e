"""What stands in for the server in `nox -s lowest` has the server's names, so that the tests of the SDK find them."""

import ast
from importlib import import_module
from pathlib import Path

import pytest

STANDING_IN = Path(__file__).parents[1] / "outside"
OWN = {"run"}
"""What only the stand-ins have."""


@pytest.mark.parametrize(
    "module",
    sorted(path.relative_to(STANDING_IN) for path in STANDING_IN.rglob("*.py") if path.stem[0] != "_"),
    ids=str,
)
def test_what_stands_in_for_the_server_has_the_servers_places_and_names(module: Path) -> None:
    defined = {
        node.name
        for node in ast.parse((STANDING_IN / module).read_text()).body
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.name[0] != "_"
    }

    real = import_module(".".join(module.with_suffix("").parts))

    assert sorted(name for name in defined - OWN if not hasattr(real, name)) == []
