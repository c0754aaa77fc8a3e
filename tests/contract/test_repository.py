"""The repository itself: its pins, its documents and its tools' settings agree with each other."""

import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from treadle.cli.group import OWN, plugins
from treadle.settings import Settings as ClientSettings
from treadle.variables import KNOWN
from treadle.wire.problems import PROBLEMS
from treadle_server.api.routes import ENDPOINTS
from treadle_server.settings import Settings as ServerSettings

ROOT = Path(__file__).parents[2]
PYPROJECTS = (ROOT / "pyproject.toml", *sorted(ROOT.glob("packages/*/pyproject.toml")))
DISTRIBUTIONS = {"treadle", "treadle-bench", "treadle-server", "treadle-tui"}


def requirements_in(pyproject: Path) -> Iterator[Requirement]:
    document = tomllib.loads(pyproject.read_text())
    project = document["project"]
    for texts in (
        project["dependencies"],
        *project.get("optional-dependencies", {}).values(),
        *document.get("dependency-groups", {}).values(),
    ):
        yield from (Requirement(text) for text in texts)


def foreign_requirements() -> list[Requirement]:
    return [
        found
        for path in PYPROJECTS
        for found in requirements_in(path)
        if canonicalize_name(found.name) not in DISTRIBUTIONS
    ]


def pins() -> dict[str, Version]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pairs = (line.split("==") for line in lines if not line.startswith("#"))
    return {canonicalize_name(name): Version(version) for name, version in pairs}


@pytest.mark.parametrize("requirement", foreign_requirements(), ids=lambda found: found.name)
def test_each_requirement_is_pinned_within_its_range(requirement: Requirement) -> None:
    pinned = pins()

    assert requirement.specifier.contains(pinned[canonicalize_name(requirement.name)])


@pytest.mark.parametrize("requirement", foreign_requirements(), ids=lambda found: found.name)
def test_each_requirement_is_explained(requirement: Requirement) -> None:
    explained = re.findall(r"^\| `([^`]+)`", (ROOT / "docs/dependencies.md").read_text(), re.MULTILINE)

    assert canonicalize_name(requirement.name) in explained


def test_nothing_is_explained_that_is_not_required() -> None:
    explained = set(re.findall(r"^\| `([^`]+)`", (ROOT / "docs/dependencies.md").read_text(), re.MULTILINE))

    required = {canonicalize_name(found.name) for found in foreign_requirements()}

    assert explained - required == set()


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("click", "8.1.7"),
        ("httpx", "0.25.2"),
        ("pydantic", "2.9.0"),
        ("pydantic-settings", "2.1.0"),
        ("uuid-utils", "0.6.1"),
        ("websockets", "15.0.1"),
    ],
)
def test_the_sdk_fits_beside_programs_that_hold_an_older_release(name: str, version: str) -> None:
    """Prefect, for one, asks for websockets<17. `nox -s lowest` runs the tests on the oldest ones."""
    asked = {found.name: found for found in requirements_in(ROOT / "packages/worker/pyproject.toml")}

    assert asked[name].specifier.contains(version)


def test_the_constraints_hold_names_and_versions_only() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pinned = [line for line in lines if not line.startswith("#")]

    odd = [line for line in pinned if not re.fullmatch(r"[a-z0-9][a-z0-9.-]*==[0-9][A-Za-z0-9.!+]*", line)]

    assert pinned == sorted(pinned)
    assert odd == []
    assert not re.search(r"://|@ |--hash|^-e", "\n".join(lines), re.MULTILINE)


def test_every_package_has_the_same_version_and_license() -> None:
    projects = [tomllib.loads(path.read_text())["project"] for path in PYPROJECTS[1:]]

    assert {project["version"] for project in projects} == {"0.1.0"}
    assert {project["license"] for project in projects} == {"Apache-2.0"}
    assert "Apache License" in (ROOT / "LICENSE").read_text()


MARKDOWN = sorted({*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")})
CODE = re.compile(r"^( *)(`{3,}).*?^\1\2 *$|`[^`\n]+`", re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """The anchors of a page: those of its headings, as repositories make them, and those that it names itself."""
    text = re.sub(r"^( *)(`{3,}).*?^\1\2 *$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    named = re.findall(r'<a id="([^"]+)">', text)
    return {*named, *(re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings)}


@pytest.mark.parametrize("page", MARKDOWN, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_documents_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)", CODE.sub("", page.read_text()))
    inside = [(page.parent / link if link else page, anchor) for link, anchor in links if "://" not in link]

    assert [str(path) for path, _ in inside if not path.exists()] == []
    assert [f"{path}#{anchor}" for path, anchor in inside if anchor and anchor not in anchors(path)] == []


def test_every_setting_is_documented_with_its_variable() -> None:
    page = (ROOT / "docs/settings.md").read_text()
    names = ServerSettings.model_fields.keys() | ClientSettings.model_fields.keys()

    assert [name for name in sorted(names) if f"| `TREADLE_{name.upper()}` |" not in page] == []


def test_a_variable_is_known_when_a_setting_or_the_dashboard_reads_it() -> None:
    names = ServerSettings.model_fields.keys() | ClientSettings.model_fields.keys()

    assert {f"TREADLE_{name.upper()}" for name in names} | {"TREADLE_TUI_CONFIG"} == KNOWN


def test_the_page_on_http_lists_exactly_the_routes_that_exist() -> None:
    page = (ROOT / "docs/http.md").read_text()

    listed = set(re.findall(r"^\| `([A-Z]+ /\S+)` \|", page, re.MULTILINE))

    assert listed == {f"{endpoint.method} " + re.sub(r":\w+}", "}", endpoint.path) for endpoint in ENDPOINTS}
    assert [name for name in PROBLEMS if f"| `{name}` |" not in page] == []


def test_every_command_that_the_documents_name_exists() -> None:
    known = set(OWN) | set(plugins())
    blocks = re.findall(
        r"^treadle (\w+)|`treadle (\w+)", "\n".join(page.read_text() for page in MARKDOWN), re.MULTILINE
    )

    assert {first or second for first, second in blocks} <= known


def test_no_statement_numbers_its_question_marks() -> None:
    """Python 3.12 warns of a sequence for `?1`, and 3.14 refuses it: values are given for `?`, or by `:name`."""
    sources = {path: path.read_text() for path in (ROOT / "packages/server/src").glob("**/*.py")}

    assert [path.name for path, source in sources.items() if re.search(r"[=(,] *\?\d|[ \"']\?\d[ ,)\"']", source)] == []


def test_no_file_names_the_host_of_a_package_registry() -> None:
    """Whoever installs from a mirror of their own is led nowhere else."""
    hosts = re.compile("|".join(map(re.escape, ("pypi." + "org", "pythonhosted." + "org", "npmjs." + "org"))))
    kept = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()

    named = [name for name in kept if hosts.search((ROOT / name).read_text(encoding="utf-8", errors="replace"))]

    assert named == []
