"""The SDK's modules and their tests are found where the architecture says."""

import ast
import re
from pathlib import Path

import pytest

import treadle

SOURCE = Path(treadle.__file__).parent
TESTS = Path(__file__).parent
MODULES = sorted(path.relative_to(SOURCE).with_suffix("") for path in SOURCE.rglob("*.py") if path.stem[0] != "_")
FOLDERS = sorted({module.parent for module in MODULES} - {Path()})
WHOLE = {
    ".": {"current_directory", "layout", "lines", "networks", "not_there_yet", "promises", "public_names", "surface",
          "types"},
    "cli": {"commands", "hostile", "hostile_commands", "hostile_output"},
    "testing": {"moved_clock"},
}  # fmt: skip
"""What concerns no module alone, by folder."""


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_every_module_says_in_a_sentence_what_it_owns(module: Path) -> None:
    said = ast.get_docstring(ast.parse((SOURCE / module).with_suffix(".py").read_text()))

    assert said is not None
    assert re.match(r"[A-Z`@].*\.(\n\n|$)", said.partition("\n\n")[0].replace("\n", " ")), said.splitlines()[0]


def test_the_architecture_draws_every_module_in_its_folder_and_nothing_else() -> None:
    page = (TESTS.parents[1] / "docs" / "architecture.md").read_text()
    drawn: dict[Path, set[str]] = {Path(): set()}
    folder = Path()
    for line in page.split("treadle/\n", maxsplit=1)[1].split("```", maxsplit=1)[0].splitlines():
        # Modules stand before the words about them, which begin behind two spaces.
        place, modules = re.match(r"  (\w+/| *)\s*((?:\w+ )*\w+)(?:  |$)", line).groups()  # type: ignore[union-attr]
        if place.strip():
            folder = Path(place)
        elif line[2] != " ":
            folder = Path()
        drawn.setdefault(folder, set()).update(modules.split())

    assert drawn == {
        folder: {module.name for module in MODULES if module.parent == folder} for folder in (Path(), *FOLDERS)
    }


@pytest.mark.parametrize("test", sorted(TESTS.rglob("test_*.py")), ids=lambda path: str(path.relative_to(TESTS)))
def test_a_file_of_tests_stands_where_its_module_does(test: Path) -> None:
    about, folder = test.stem.removeprefix("test_"), test.parent.relative_to(TESTS)
    if about in WHOLE.get(str(folder), ()):
        return
    beside = {place.name for place in (*MODULES, *FOLDERS) if place.parent == folder}

    assert [name for name in beside if about == name or about.startswith(f"{name}_")]
