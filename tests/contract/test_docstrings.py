"""Every public function has a docstring that names each error which its own lines raise; what is named is there."""

import ast
import builtins
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ROOT / "packages"
SOURCES = sorted(path for path in PACKAGES.glob("*/src/**/*.py") if "versions" not in path.parts)

_OF_NO_CALLER = {
    "AssertionError", "AttributeError", "KeyError", "NotImplementedError",
    "ClickException", "SystemExit", "UsageError",
}  # fmt: skip
"""Errors of whoever writes the code, and the ends of commands, whose docstrings are their help."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def public_in(tree: ast.Module | ast.ClassDef, name: str = "") -> Iterator[tuple[str, Function, str]]:
    """Every public function and method, by its name, with what its class says; overloads say nothing."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from public_in(node, f"{name}{node.name}.")
        elif isinstance(node, Function) and is_public(node):
            yield f"{name}{node.name}", node, ast.get_docstring(tree) or "" if isinstance(tree, ast.ClassDef) else ""


def is_public(node: Function) -> bool:
    is_overload = any(ast.unparse(one) == "overload" for one in node.decorator_list)
    return not is_overload and (not node.name.startswith("_") or node.name == "__init__")


def raised_by(node: ast.AST, caught: frozenset[str] = frozenset()) -> Iterator[str]:
    """The names of the errors that are raised below a node and not caught there; functions within are their own."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function | ast.ClassDef | ast.Lambda):
            continue
        if isinstance(child, ast.Try):
            handled = [ast.walk(one.type) for one in child.handlers if one.type is not None]
            names = {part.id for parts in handled for part in parts if isinstance(part, ast.Name)}
            yield from raised_by(ast.Module(child.body, []), caught | names)
            for rest in (child.handlers, child.orelse, child.finalbody):
                yield from raised_by(ast.Module(list(rest), []), caught)  # type: ignore[arg-type]
            continue
        if isinstance(child, ast.Raise) and child.exc is not None:
            error = child.exc.func if isinstance(child.exc, ast.Call) else child.exc
            name = error.id if isinstance(error, ast.Name) else getattr(error, "attr", "")
            if name[:1].isupper() and not caught & names_of(name):
                yield name
        yield from raised_by(child, caught)


def names_of(error: str) -> set[str]:
    """The names by which an error is caught: those of a builtin one's bases too."""
    found = getattr(builtins, error, None)
    return {error} | ({one.__name__ for one in found.__mro__} if isinstance(found, type) else set())


def not_told(node: Function, of_class: str) -> list[str]:
    """The errors that a function's docstring, and its class's for `__init__`, keep to themselves."""
    said = " ".join(f"{ast.get_docstring(node) or ''} {of_class if node.name == '__init__' else ''}".split())
    if "aises as `" in said:
        return []
    return sorted(name for name in set(raised_by(node)) - _OF_NO_CALLER if f"`{name}`" not in said)


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: "/".join(path.parts[-3:]))
def test_what_is_public_has_a_docstring_that_names_what_it_raises(source: Path) -> None:
    public = list(public_in(ast.parse(source.read_text())))

    assert [name for name, node, _ in public if node.name != "__init__" and not ast.get_docstring(node)] == []
    assert [(name, missing) for name, node, of_class in public if (missing := not_told(node, of_class))] == []


@pytest.mark.parametrize(
    ("source", "missing"),
    [
        ("raise ValueError('no')", ["ValueError"]),
        ('"""Raises `ValueError`."""\n    raise ValueError(\'no\')', []),
        ('"""Raises `OSError`."""\n    raise errors.Gone', ["Gone"]),
        ("try:\n        raise PermissionError\n    except OSError:\n        return", []),
        ("try:\n        return\n    except OSError:\n        raise Gone from None", ["Gone"]),
        ("def inner():\n        raise Gone\n    return inner", []),
    ],
)
def test_an_error_that_is_not_named_is_found(source: str, missing: list[str]) -> None:
    [(_, node, of_class)] = public_in(ast.parse(f"def given():\n    {source}"))

    assert not_told(node, of_class) == missing


def test_a_module_that_a_docstring_or_a_comment_names_is_there() -> None:
    """By its path, or the end of it, between backticks; migrations tell of their time."""
    sources = [*SOURCES, *(ROOT / "tests").rglob("*.py")]
    there = {str(path.relative_to(ROOT)) for path in sources} | {"env.py"}

    named = {(path.name, name) for path in sources for name in re.findall(r"`([\w/]+\.py)`", path.read_text())}

    assert len(named) > 20
    assert [one for one in sorted(named) if not any(f"/{path}".endswith(f"/{one[1]}") for path in there)] == []
