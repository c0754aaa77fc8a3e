"""What stands in for the server in `nox -s lowest` has the server's names, so that the tests of the SDK find them."""

import ast
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STANDING_IN = ROOT / "tests/outside"
OWN = {"run"}
"""What only the stand-ins have."""


def test_what_is_run_with_it_looks_into_the_server_in_tests_of_their_own_alone() -> None:
    """An import at a module's top ends the session; within a test that is marked `inside` it is left out with it."""
    places = {".".join(path.relative_to(STANDING_IN).with_suffix("").parts) for path in STANDING_IN.rglob("*.py")}
    left_out = [ROOT / path for path in _not_lowest()]
    looking = [
        f"{path.relative_to(ROOT)}: {node.module}"
        for path in sorted((ROOT / "tests/worker").rglob("*.py"))
        if not any(path.is_relative_to(one) for one in left_out)
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "treadle_server"
        if node.module not in places
    ]

    assert looking == []


def _not_lowest() -> tuple[str, ...]:
    """Return what the session leaves out, of which nox itself may not be installed."""
    [value] = [
        node.value
        for node in ast.parse((ROOT / "noxfile.py").read_text()).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "NOT_LOWEST"
    ]
    return tuple(str(one.value) for one in ast.walk(value) if isinstance(one, ast.Constant))


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
