"""The server's modules are found where the architecture draws them, and each says what it owns."""

import ast
import re
from pathlib import Path

import pytest

import treadle_server

SOURCE = Path(treadle_server.__file__).parent
PAGE = (Path(__file__).parents[2] / "docs" / "architecture.md").read_text()
SECTION = PAGE.split("## The server\n", maxsplit=1)[1].split("\n## ", maxsplit=1)[0]
MODULES = sorted(
    path.relative_to(SOURCE).with_suffix("")
    for path in SOURCE.rglob("*.py")
    if path.stem != "__init__" and "migrations" not in path.parts
)
FEWEST_WORDS = 5
"""Of a sentence that says more than the module's name does."""


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_every_module_says_in_a_sentence_what_it_owns(module: Path) -> None:
    said = ast.get_docstring(ast.parse((SOURCE / module).with_suffix(".py").read_text()))

    assert said is not None
    assert re.match(r"[A-Z`].*\.(\n\n|$)", said), said.splitlines()[0]
    assert len(said.split("\n\n", maxsplit=1)[0].split()) >= FEWEST_WORDS, said


def drawn_folders() -> dict[str, set[str]]:
    """Each folder of the drawing, with the words that are written in its lines."""
    tree = SECTION.split("treadle_server/\n", maxsplit=1)[1].split("```", maxsplit=1)[0]
    above, folder, found = "", ".", dict[str, set[str]]()
    for line in tree.splitlines():
        opened = re.match(r"( +)(\w+)/ ", line)
        if opened is not None and len(opened[1]) == 2:
            above = folder = opened[2]
        elif opened is not None:
            folder = f"{above}/{opened[2]}"
        found.setdefault(folder, set()).update(re.findall(r"\w+", line[opened.end() :] if opened else line))
    return found


def test_the_architecture_draws_every_module_in_its_folder() -> None:
    drawn = drawn_folders()

    assert [str(module) for module in MODULES if module.name not in drawn.get(str(module.parent), ())] == []
    assert [folder for folder in drawn if not (SOURCE / folder).is_dir()] == []


def test_every_place_that_the_walk_names_is_there() -> None:
    named = re.findall(r"`([\w/]+\.py)`", SECTION)

    assert len(named) > 20
    assert [place for place in named if not (SOURCE / place).is_file()] == []
