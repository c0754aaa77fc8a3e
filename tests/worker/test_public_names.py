"""The names that programs may import: they stay where they are, wherever the modules behind them stand."""

import ast
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import treadle

LISTED = Path(__file__).with_name("public_names.txt")
ROOT = Path(__file__).parents[2]
WRITTEN = [
    *ROOT.glob("docs/**/*.md"),
    *ROOT.glob("examples/**/*.py"),
    *ROOT.glob("packages/*/README.md"),
    ROOT / "README.md",
]
NO_MODULES = {"treadle.checks", "treadle.commands", "treadle.db"}
"""What the docs call by a name with a dot that is none to import: groups of entry points, and a file."""


def test_every_public_name_is_where_it_was() -> None:
    """A name that goes breaks somebody's program, and one that comes is a promise: both are decided, in this list."""
    assert sorted(_public_names()) == LISTED.read_text().splitlines()


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: str(path.relative_to(ROOT)))
def test_whatever_the_docs_import_is_there(path: Path) -> None:
    text = path.read_text()

    for module, names in re.findall(r"^\s*from (treadle(?:\.\w+)*) import ([\w, ]+)$", text, re.MULTILINE):
        for name in names.split(","):
            _named(f"{module}.{name.strip()}")
    for name in re.findall(r"`(treadle(?:\.\w+)+)`", text):
        if name not in NO_MODULES:
            _named(name)


def test_each_public_name_has_a_docstring() -> None:
    assert [name for name in LISTED.read_text().splitlines() if not _is_explained(name)] == []


def test_what_a_public_name_raises_by_itself_is_in_its_docstring() -> None:
    untold = {name: _untold(name) for name in LISTED.read_text().splitlines()}

    assert {name: kinds for name, kinds in untold.items() if kinds} == {}


def test_no_module_takes_the_place_of_a_public_name() -> None:
    """An import of `treadle.x` makes `x` an attribute of `treadle`: `task` must stay the decorator all the same."""
    script = """
import importlib, pkgutil
import treadle
for module in pkgutil.walk_packages(treadle.__path__, "treadle."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
print([name for name in treadle.__all__ if name != "errors" and type(getattr(treadle, name)) is type(treadle)])
"""

    assert subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout == "[]\n"


def _public_names() -> Iterator[str]:
    for name in treadle.__all__:
        yield f"treadle.{name}"
        value = getattr(treadle, name)
        if inspect.isclass(value):
            yield from (f"treadle.{name}.{attribute}" for attribute in _attributes(value))
    for place in ("treadle.encryption", "treadle.errors", "treadle.internal", "treadle.outbox", "treadle.testing"):
        yield from (f"{place}.{name}" for name in _defined(importlib.import_module(place)))
    yield "treadle.cli.main"
    wire = importlib.import_module("treadle.wire")
    yield from (f"treadle.wire.{name}" for name in wire.__all__)
    for module in pkgutil.iter_modules(wire.__path__, "treadle.wire."):
        yield from (f"{module.name}.{name}" for name in _defined(importlib.import_module(module.name)))


def _attributes(kind: type) -> set[str]:
    """Return the public attributes that come of our own classes, not of pydantic's or the language's."""
    ours = [base for base in kind.__mro__ if base.__module__.startswith("treadle")]
    return {name for base in ours for name in vars(base) if not name.startswith(("_", "model_"))}


def _defined(module: ModuleType) -> list[str]:
    """Return the public functions and classes of a module that are its own, and what it lists to be had there."""
    listed = getattr(module, "__all__", ())
    own = (
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and callable(value) and getattr(value, "__module__", None) == module.__name__
    )
    return sorted({*listed, *own})


def _named(name: str) -> object:
    """Return what a dotted name stands for; raise `ImportError` or `AttributeError` when it is nothing."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        place, _, last = name.rpartition(".")
        return getattr(_named(place), last)


def _placed(name: str) -> tuple[Any, Any]:
    """Return the module or class that has a public name, and what the name stands for, as it is kept there."""
    place, _, last = name.rpartition(".")
    owner: Any = _named(place)
    value = inspect.getattr_static(owner, last) if inspect.isclass(owner) else getattr(owner, last)
    return owner, value.__func__ if isinstance(value, classmethod | staticmethod) else value


def _is_explained(name: str) -> bool:
    """Whether there is a docstring; of what is no class and no function, behind its assignment."""
    owner, value = _placed(name)
    if inspect.isclass(value):
        return bool(vars(value).get("__doc__"))
    if inspect.isroutine(value) or isinstance(value, property | ModuleType):
        return bool(value.__doc__)
    last = name.rpartition(".")[2]
    return any(_assignments(place).get(last) for place in _homes(owner, last))


def _untold(name: str) -> set[str]:
    """Return the exceptions that a name's own lines raise, and that neither its docstring nor its class's names."""
    owner, value = _placed(name)
    functions = [value.fget if isinstance(value, property) else inspect.unwrap(value) if callable(value) else value]
    if inspect.isclass(value):
        functions = [vars(value).get(method) for method in ("__init__", "__post_init__")]
    said = f"{value.__doc__} {owner.__doc__}"
    raised = {kind for function in functions if inspect.isfunction(function) for kind in _raised(function)}
    return {kind for kind in raised if kind not in said}


def _homes(owner: Any, name: str) -> Iterator[Any]:
    """Return where the assignment of a name may stand: in a class or its bases, in a module or those it imports."""
    if inspect.isclass(owner):
        yield from owner.__mro__
    elif name in _assignments(owner):
        yield owner
    elif owner is treadle and name in treadle._HOMES:
        yield importlib.import_module(treadle._HOMES[name])
    else:
        for module in pkgutil.walk_packages(treadle.__path__, "treadle."):
            if module.name.startswith(("treadle.wire.", "treadle.version")):
                yield importlib.import_module(module.name)


@cache
def _assignments(place: Any) -> dict[str, bool]:
    """Return what a module or a class assigns, and whether a docstring stands behind it."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(place)))
    except (OSError, TypeError):
        return {}
    body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else tree.body
    found = {}
    for node, behind in pairwise([*body, ast.Pass()]):
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        is_said = isinstance(behind, ast.Expr) and isinstance(behind.value, ast.Constant)
        found |= {target.id: is_said for target in targets if isinstance(target, ast.Name)}
    return found


def _raised(function: Any) -> Iterator[str]:
    """Return the names of the exceptions that a function raises in its own lines."""
    try:
        source = inspect.getsource(function)
    except OSError:  # a dataclass writes its own
        return
    for node in ast.walk(ast.parse(textwrap.dedent(source))):
        if isinstance(node, ast.Raise) and node.exc is not None:
            kind = ast.unparse(node.exc.func if isinstance(node.exc, ast.Call) else node.exc)
            # A lower-case name is an exception that was caught, or handed in.
            if kind[:1].isupper():
                yield kind
