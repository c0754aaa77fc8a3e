"""The dashboard's modules and their tests are found where the architecture says."""

import ast
import re
from pathlib import Path

import pytest

import treadle_tui

SOURCE = Path(treadle_tui.__file__).parent
TESTS = Path(__file__).parent
MODULES = sorted(path.relative_to(SOURCE).with_suffix("") for path in SOURCE.rglob("*.py") if path.stem != "__init__")
WHOLE = {
    "behaviour",
    "hostile",
    "layout",
    "pictures",
    "real_server",
    "screens_on_a_server",
    "sizes",
    "space",
    "unknown",
}
"""What concerns no module alone."""


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_every_module_says_in_a_sentence_what_it_owns(module: Path) -> None:
    said = ast.get_docstring(ast.parse((SOURCE / module).with_suffix(".py").read_text()))

    assert said is not None
    assert re.match(r"[A-Z`].*\.(\n\n|$)", said), said.splitlines()[0]


def test_the_architecture_draws_every_module_in_its_folder() -> None:
    page = (TESTS.parents[1] / "docs" / "architecture.md").read_text()
    tree = page.split("treadle_tui/\n", maxsplit=1)[1].split("```", maxsplit=1)[0]
    drawn = {folder: set(re.findall(r"\w+", words)) for folder, words in _folders(tree)}

    missing = [str(module) for module in MODULES if module.name not in drawn[str(module.parent)]]

    assert missing == []


def _folders(tree: str) -> list[tuple[str, str]]:
    """Return each folder of the drawing with all that is written in its lines."""
    found: list[list[str]] = [[".", ""]]
    for line in tree.splitlines():
        folder = re.match(r" +(\w+)/ ", line)
        if folder is not None:
            inner = folder[1] in {"views", "setup", "verbs", "live", "state", "draw"}
            found.append([f"core/{folder[1]}" if inner else folder[1], ""])
        elif re.match(r"  \w", line):
            found.append([".", ""])
        found[-1][1] += line + "\n"
    whole: dict[str, str] = {}
    for name, words in found:
        whole[name] = whole.get(name, "") + words
    return list(whole.items())


@pytest.mark.parametrize("test", sorted(TESTS.rglob("test_*.py")), ids=lambda path: str(path.relative_to(TESTS)))
def test_a_file_of_tests_stands_where_its_module_does(test: Path) -> None:
    about, folder = test.stem.removeprefix("test_"), test.parent.relative_to(TESTS)
    if folder == Path() and about in WHOLE:
        return
    beside = {module.name for module in MODULES if module.parent == folder}

    assert [name for name in beside if about == name or about.startswith(f"{name}_")]
