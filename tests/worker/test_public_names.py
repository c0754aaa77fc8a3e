"""The names that programs may import: they stay where they are, wherever the modules behind them stand."""

import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

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
NO_MODULES = {"treadle.commands", "treadle.db"}
"""What the docs call by a name with a dot that is none to import: a group of entry points, and a file."""


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
    for place in ("treadle.errors", "treadle.internal", "treadle.testing"):
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
