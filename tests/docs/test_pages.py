"""The pages and the program agree: what there is has its place, and what is written is so."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import treadle
from tests.docs import commands, options
from tests.model.diagram import diagram
from treadle.wire.options import OPTIONS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


class Loader(yaml.SafeLoader):
    """Reads mkdocs.yml, which names functions of its extensions too."""


Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda *said: said[1])


def site() -> dict[str, Any]:
    return yaml.load((ROOT / "mkdocs.yml").read_text(), Loader)


def leaves(nav: Any) -> Iterator[str]:
    for entry in nav if isinstance(nav, list) else nav.values() if isinstance(nav, dict) else ():
        if isinstance(entry, str):
            yield entry
        else:
            yield from leaves(entry)


def test_every_page_has_its_place_in_the_navigation() -> None:
    """`mkdocs.yml` lists them; decisions have a listing of their own."""
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.glob("**/*.md") if path.parent.name != "decisions"}

    named = list(leaves(site()["nav"]))

    assert pages == {name for name in named if not name.startswith(("repository/", "decisions/"))}
    assert len(named) == len(set(named))


@pytest.mark.parametrize("name", [name for name in treadle.__all__ if name != "__version__"])
def test_every_public_name_is_in_the_reference(name: str) -> None:
    page = (DOCS / "reference/python.md").read_text()

    assert re.search(rf"^::: treadle\.{name}$", page, re.MULTILINE)


def test_the_reference_shows_what_a_class_inherits_and_what_it_is_made_with() -> None:
    """Of a client it had nothing that lists or steers, and of a worker nothing that it can be given."""
    [plugin] = [one["mkdocstrings"] for one in site()["plugins"] if "mkdocstrings" in one]
    shown = plugin["handlers"]["python"]["options"]

    assert shown["inherited_members"]
    assert shown["merge_init_into_class"]


def test_the_table_of_options_is_what_the_wire_says_of_them() -> None:
    """`python -m tests.docs.options` writes it."""
    assert options.PAGE.read_text() == options.page()
    assert all(f"\n| `{name}` | " in options.table() for name in OPTIONS)


def test_the_page_of_commands_is_what_the_commands_say() -> None:
    """`python -m tests.docs.commands` writes it."""
    # In a process of its own: a command that was run by itself before keeps the `--help` that it had then.
    code = "from tests.docs import commands; print(commands.page(), end='')"
    said = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True)

    assert commands.PAGE.read_text() == said.stdout


def test_the_diagram_of_the_concepts_is_the_one_that_the_table_gives() -> None:
    [drawn] = re.findall(r"```mermaid\n(.*?)```", (DOCS / "concepts.md").read_text(), re.DOTALL)

    assert drawn.strip() == diagram()


def test_files_that_the_pages_name_are_there() -> None:
    """A path from the root of the repository, in a command or a sentence, and a module that `python -m` runs."""
    missing: list[tuple[str, str]] = []
    for page in [*ROOT.glob("*.md"), *DOCS.glob("**/*.md")]:
        text = page.read_text()
        named = re.findall(r"(?<![\w/.])((?:tests|packages|examples|deploy)/[\w/-]+\.\w+)", text)
        for module in re.findall(r"python -m ((?:tests|examples)[.\w]+)", text):
            path = module.replace(".", "/")
            named.append(f"{path}/__main__.py" if (ROOT / path).is_dir() else f"{path}.py")
        missing += [(page.name, name) for name in named if not (ROOT / name).is_file()]

    assert missing == []


def test_a_page_is_written_for_the_repository_too() -> None:
    """Each begins with its title, and has one: the site's navigation takes it from there."""
    pages = [path for path in DOCS.glob("**/*.md") if not re.match(r"# \S", path.read_text())]

    assert pages == []
