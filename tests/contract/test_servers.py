"""A server in the tests' own process ends with their folder: what faults others put into its modules it would meet."""

import ast
from pathlib import Path

TESTS = Path(__file__).parents[1]


def outliving(source: str) -> list[str]:
    """Return the fixtures that keep a server in a thread for as long as the process."""
    if "serve_in_thread(" not in source:
        # Most modules, which take seconds to read as Python.
        return []
    return [
        node.name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef)
        and any("scope='session'" in ast.unparse(decorator) for decorator in node.decorator_list)
        and "serve_in_thread(" in ast.unparse(node)
    ]


def test_no_server_in_this_process_outlives_the_tests_of_its_folder() -> None:
    found = {str(path.relative_to(TESTS)): outliving(path.read_text()) for path in TESTS.rglob("*.py")}

    assert {name: fixtures for name, fixtures in found.items() if fixtures} == {}


def test_one_that_does_is_found_and_one_of_a_folder_is_none() -> None:
    fixture = "@pytest.fixture(scope='{}')\ndef served():\n    with serve_in_thread() as one:\n        yield one\n"

    assert outliving(fixture.format("session")) == ["served"]
    assert outliving(fixture.format("package")) == []
