"""What CONTRIBUTING.md says of the code is so."""

import re
from pathlib import Path

import pytest

from treadle.wire.operations import OPERATIONS
from treadle.wire.options import OPTIONS
from treadle.wire.problems import PROBLEMS
from treadle.wire.transitions import Verb
from treadle_server.settings import Settings

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text()

_SECTION = re.compile(r"^### [^\n]+, as `(?P<example>[\w-]+)`\n(?P<text>.+?)(?=^##)", re.MULTILINE | re.DOTALL)
_PATH = re.compile(r"`((?:packages|tests|docs)/[\w./-]+)`")

EXAMPLES = {found["example"]: found["text"] for found in _SECTION.finditer(PAGE)}


def mentions(path: Path, word: str) -> bool:
    """Whether the file, or one in the folder, has the word, or the class or the variable of that name."""
    names = re.compile(rf"\b(TREADLE_{word.upper()}|{re.escape(word)}|{word.title().replace('-', '')})\b")
    files = sorted(path.glob("*.py")) if path.is_dir() else [path]
    return any(names.search(file.read_text()) for file in files)


def test_each_example_is_one() -> None:
    option, verb, operation, problem, setting = EXAMPLES

    assert option in OPTIONS
    assert verb in {one.value for one in Verb}
    assert operation in {one.body.__name__ for one in OPERATIONS.values() if one.body is not None}
    assert problem in PROBLEMS
    assert setting in Settings.model_fields


@pytest.mark.parametrize("example", EXAMPLES)
def test_each_place_that_is_named_has_the_example(example: str) -> None:
    listed = [ROOT / path for line in EXAMPLES[example].splitlines() if line[:1] == "-" for path in _PATH.findall(line)]

    assert len(listed) > 1
    assert [path.relative_to(ROOT) for path in listed if not path.exists()] == []
    assert [path.relative_to(ROOT) for path in listed if not mentions(path, example)] == []


def test_each_place_that_a_page_of_the_repository_names_is_there() -> None:
    pages = [ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", ROOT / "docs/architecture.md"]
    named = {path for page in pages for path in _PATH.findall(page.read_text())}

    assert {path for path in named if not (ROOT / path).exists()} == set()


def test_each_folder_of_the_map_is_there() -> None:
    [drawn] = re.findall(r"## A map of the code\n\n```\n(.+?)```", PAGE, re.DOTALL)
    root, missing = "", []
    for line in drawn.splitlines():
        places = re.split(r"\s{2,}", line.strip())[0].split()
        if line[0] != " " and places[0].startswith("packages/"):
            root = places[0]
        missing += [one for one in places if not ((ROOT / root / one) if line[0] == " " else ROOT / one).is_dir()]

    assert missing == []
