"""Modules and their tests are found where the architecture draws them, and each module says what it owns."""

import ast
import re
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text()


class Package(NamedTuple):
    """A package, and the folder in which its tests stand in the same order."""

    source: Path
    tests: Path

    @property
    def modules(self) -> list[Path]:
        """Every module, by its path without the ending; what migrations have made once is drawn as a whole."""
        paths = (path.relative_to(self.source).with_suffix("") for path in self.source.rglob("*.py"))
        return sorted(path for path in paths if path.stem[0] != "_" and "migrations" not in path.parts)

    @property
    def folders(self) -> list[Path]:
        """Every folder below the package."""
        return sorted(path.parent.relative_to(self.source) for path in self.source.rglob("*/__init__.py"))


PACKAGES = {
    "treadle": Package(ROOT / "packages/worker/src/treadle", ROOT / "tests/worker"),
    "treadle_server": Package(ROOT / "packages/server/src/treadle_server", ROOT / "tests"),
    "treadle_tui": Package(ROOT / "packages/tui/src/treadle_tui", ROOT / "tests/tui"),
    "treadle_bench": Package(ROOT / "packages/bench/src/treadle_bench", ROOT / "tests/bench"),
}

MODULES = [(name, module) for name, package in PACKAGES.items() for module in package.modules]

OF_A_MATTER = dict(re.findall(r"^\| `tests/(\w+)` \| (.+) \|$", PAGE, re.MULTILINE))
"""The folders of tests that are about a matter that many modules have a part in, and what each is about."""

WHOLE = {
    "api": "encrypted hostile measures",
    "artifacts": "sdk",
    "engine": "invariants life races seldom two_servers",
    "store": "bounded_lists fresh_plans million plans views",
    "tui": "behaviour hostile pictures real_server screens_on_a_server sizes space unknown",
    "webhooks": "api outbox",
    "worker": "current_directory lines networks not_there_yet promises public_names surface types",
    "worker/cli": "commands hostile hostile_commands hostile_output",
    "worker/outbox": "killed outages",
    "worker/testing": "moved_clock",
}
"""Beside the modules of a folder: what concerns no module alone."""

FEWEST_WORDS = 5
"""Of a sentence that says more than the module's name does."""


MOST_LINES = 400


@pytest.mark.parametrize(("package", "module"), MODULES, ids=str)
def test_every_module_says_in_a_sentence_what_it_owns(package: str, module: Path) -> None:
    said = ast.get_docstring(ast.parse((PACKAGES[package].source / module).with_suffix(".py").read_text()))

    assert said is not None
    sentence = said.partition("\n\n")[0].replace("\n", " ")
    assert re.match(r"[A-Z`@].*\.( |$)", sentence), sentence
    assert len(sentence.split()) >= FEWEST_WORDS, sentence


def test_no_module_is_longer_than_four_hundred_lines() -> None:
    """The first migration is, and is never edited."""
    sources = (path for one in PACKAGES.values() for path in one.source.rglob("*.py") if "versions" not in path.parts)

    lengths = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in sources}

    assert {name: length for name, length in lengths.items() if length > MOST_LINES} == {}


def drawn_in(package: str) -> dict[str, set[str]]:
    """Each folder of a package's drawing, with the words that are written in its lines."""
    tree = PAGE.split(f"\n{package}/\n", maxsplit=1)[1].split("```", maxsplit=1)[0]
    above, folder, found = "", ".", dict[str, set[str]]()
    for line in tree.splitlines():
        opened = re.match(r"( +)(\w+)/ ", line)
        if opened is not None and len(opened[1]) == 2:
            above = folder = opened[2]
        elif opened is not None:
            folder = f"{above}/{opened[2]}"
        elif re.match(r"  \w", line):
            folder = "."
        found.setdefault(folder, set()).update(re.findall(r"\w+", line[opened.end() :] if opened else line))
    return found


@pytest.mark.parametrize("package", PACKAGES)
def test_the_architecture_draws_every_module_in_its_folder(package: str) -> None:
    drawn, modules = drawn_in(package), PACKAGES[package].modules

    assert [str(module) for module in modules if module.name not in drawn.get(str(module.parent), ())] == []
    assert [folder for folder in drawn if not (PACKAGES[package].source / folder).is_dir()] == []


def test_the_drawing_of_the_sdk_names_nothing_that_is_not_there() -> None:
    drawn: dict[Path, set[str]] = {}
    folder = Path()
    for line in PAGE.split("\ntreadle/\n", maxsplit=1)[1].split("```", maxsplit=1)[0].splitlines():
        # Modules stand before the words about them, which begin behind two spaces.
        place, modules = re.match(r"  (\w+/| *)\s*((?:\w+ )*\w+)(?:  |$)", line).groups()  # type: ignore[union-attr]
        if place.strip():
            folder = Path(place)
        elif line[2] != " ":
            folder = Path()
        drawn.setdefault(folder, set()).update(modules.split())

    there = PACKAGES["treadle"]
    assert drawn == {
        folder: {module.name for module in there.modules if module.parent == folder}
        for folder in (Path(), *there.folders)
    }


SECTIONS = {"The server": "treadle_server", "The SDK": "treadle", "The dashboard": "treadle_tui"}


def section(heading: str) -> str:
    """What the page says under a heading of its own."""
    return PAGE.split(f"## {heading}\n", maxsplit=1)[1].split("\n## ", maxsplit=1)[0]


@pytest.mark.parametrize("heading", SECTIONS)
def test_every_place_that_a_walk_or_an_answer_names_is_there(heading: str) -> None:
    source = PACKAGES[SECTIONS[heading]].source
    named = set(re.findall(r"`([\w/]+\.py)`", section(heading)))

    roots = (source, source / "core", source / "core/views", ROOT)

    assert len(named) > 4
    assert [place for place in named if not any((root / place).is_file() for root in roots)] == []


WALKS = (
    ("The server", "| down:", "\n\n", 1),
    ("The server", "| up,", "\n\n", -1),
    ("The server", "A worker's report goes down", ";", 1),
    ("The server", "the outcome goes up", "\n\n", -1),
    ("The SDK", "**A submit, down.**", "\n\n", 1),
    ("The SDK", "**A claim.**", "\n\n", 1),
    ("The SDK", "**A result, up.**", "\n\n", -1),
)
"""Each part of a task's way: its heading, its first words, what ends it, and whether it goes down (1) or up (-1)."""


@pytest.mark.parametrize(("heading", "begin", "end", "down"), WALKS, ids=lambda value: str(value).strip())
def test_the_walk_of_a_task_follows_the_folders_without_a_step_back(
    heading: str, begin: str, end: str, down: int
) -> None:
    folders = [folder for folder in drawn_in(SECTIONS[heading]) if folder != "."]
    part = section(heading).split(begin, maxsplit=1)[1].split(end, maxsplit=1)[0]

    walk = [folders.index(str(Path(place).parent)) for place in re.findall(r"`([\w/]+\.py)`", part)]

    assert len(walk) > 1
    assert walk == sorted(walk, reverse=down < 0)


def test_every_function_that_an_answer_names_stands_where_it_says() -> None:
    named = re.findall(r"`(\w+)` in `([\w/]+\.py)`", section("The server"))
    source = PACKAGES["treadle_server"].source

    assert len(named) > 2
    assert [
        f"{name} in {place}"
        for name, place in named
        if not re.search(rf"^\s*(async )?def {name}\(", (source / place).read_text(), re.MULTILINE)
    ] == []


def package_of(test: Path) -> Package:
    """The package whose tests stand where this one does."""
    holding = [one for one in PACKAGES.values() if test.is_relative_to(one.tests)]
    return max(holding, key=lambda one: len(one.tests.parts))


TESTS = [
    path
    for path in sorted((ROOT / "tests").rglob("test_*.py"))
    if path.relative_to(ROOT / "tests").parts[0] not in OF_A_MATTER
]


@pytest.mark.parametrize("test", TESTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_of_tests_stands_where_its_module_does(test: Path) -> None:
    about, package = test.stem.removeprefix("test_"), package_of(test)
    folder = test.parent.relative_to(package.tests)
    if about in WHOLE.get(str(test.parent.relative_to(ROOT / "tests")), "").split():
        return
    beside = {place.name for place in (*package.modules, *package.folders) if place.parent == folder and place.name}

    assert [name for name in {*beside, folder.name} if name and (about == name or about.startswith(f"{name}_"))]


def test_the_page_says_what_each_folder_is_about_that_follows_no_code() -> None:
    folders = {path.name for path in (ROOT / "tests").iterdir() if (path / "__init__.py").is_file()}
    with_code = {one.tests.name for one in PACKAGES.values()} | {str(one) for one in PACKAGES["treadle_server"].folders}

    assert OF_A_MATTER.keys() == folders - with_code
    assert [name for name in WHOLE if not (ROOT / "tests" / name).is_dir()] == []
    assert [
        f"{name}: {about}"
        for name, words in WHOLE.items()
        for about in words.split()
        if not (ROOT / "tests" / name / f"test_{about}.py").is_file()
    ] == []
