"""Brings what the pages link to and what is not a page into the site: source files, and listings of folders.

The pages are read in the repository too, where such a link leads to the file. The site has no address of a repository
to send its readers to, so each file that is linked to becomes a page that shows it, and each folder one that lists it.
"""

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
HOME = "repository"
"""Where in the site they are."""

LISTING = "listing.md"
"""What the page of a folder is called."""

LINK = re.compile(r"(\]\()([^)#\s]+)(#[^)\s]*)?(\))")
FENCE = re.compile(r"^ *(`{3,})")
LANGUAGES = {".py": "python", ".yaml": "yaml", ".service": "ini", ".json": "json", ".toml": "toml", ".sh": "sh"}
LISTED = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "LICENSE")
"""What the navigation names, though no page may link to it."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each file and folder that is linked to, and for what these link to in turn."""
    waiting = [ROOT / name for name in LISTED]
    for file in files.documentation_pages():
        waiting += targets(file.content_string, DOCS / file.src_uri)
    seen: set[Path] = set()
    while waiting:
        path = waiting.pop()
        if path in seen or not needs_page(path):
            continue
        seen.add(path)
        content = shown(path)
        files.append(File.generated(config, uri(path), content=content))
        waiting += targets(content, path / LISTING if path.is_dir() else path)
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn the links of a page to where they lead within the site."""
    source = origin(page.file.src_uri)

    def turned(match: re.Match[str]) -> str:
        opening, link, anchor, closing = match.groups()
        path = resolved(link, source)
        if path is None or (path.is_relative_to(DOCS) and not path.is_dir() and source.is_relative_to(DOCS)):
            return match[0]
        return opening + posixpath.relpath(uri(path), posixpath.dirname(page.file.src_uri)) + (anchor or "") + closing

    return "\n".join(line if code else LINK.sub(turned, line) for line, code in lines(markdown))


def lines(markdown: str) -> Iterator[tuple[str, bool]]:
    """Give each line, and whether it is code."""
    fence = ""
    for line in markdown.split("\n"):
        found = FENCE.match(line)
        if found and not fence:
            fence = found[1]
            yield line, True
        elif found and line.strip() == fence:
            fence = ""
            yield line, True
        else:
            yield line, bool(fence)


def targets(markdown: str, source: Path) -> list[Path]:
    """Return the files and folders of the repository that a page links to."""
    links = [match[2] for line, code in lines(markdown) if not code for match in LINK.finditer(line)]
    return [path for link in links if (path := resolved(link, source))]


def resolved(link: str, source: Path) -> Path | None:
    """Return what a link leads to in the repository; None for an address, and for what is not there."""
    if "://" in link or link.startswith("mailto:"):
        return None
    path = Path(posixpath.normpath((source.parent / link).as_posix()))
    return path if path.is_relative_to(ROOT) and path.exists() else None


def needs_page(path: Path) -> bool:
    """Return whether the site has no page of it by itself."""
    return path.is_dir() or not path.is_relative_to(DOCS)


def uri(path: Path) -> str:
    """Return where in the site's sources a file or folder stands."""
    if path.is_relative_to(DOCS):
        return (path / LISTING if path.is_dir() else path).relative_to(DOCS).as_posix()
    place = f"{HOME}/{path.relative_to(ROOT).as_posix()}"
    return f"{place}/{LISTING}" if path.is_dir() else place if path.suffix == ".md" else f"{place}.md"


def origin(src_uri: str) -> Path:
    """Return the file of the repository that a page was made of."""
    within = posixpath.relpath(src_uri, HOME)
    if within.startswith(".."):
        return DOCS / src_uri
    name = ROOT / within
    return name if name.exists() or name.name == LISTING else name.with_suffix("")


def shown(path: Path) -> str:
    """Return the page of a file or folder."""
    name = path.relative_to(ROOT).as_posix()
    if path.is_dir():
        children = sorted(child for child in path.iterdir() if not child.name.startswith(("_", ".")))
        return "\n".join([f"# {name}", "", *(f"- [{heading(child)}]({child.name})" for child in children), ""])
    text = path.read_text()
    if path.suffix == ".md":
        return text
    return f"# {name}\n\n````{LANGUAGES.get(path.suffix, 'text')}\n{text.rstrip()}\n````\n"


def heading(path: Path) -> str:
    """Return what a listing calls a file: a page's title, else its name."""
    if path.suffix == ".md":
        return path.read_text().split("\n", 1)[0].removeprefix("# ").replace("[", "").replace("]", "")
    return f"`{path.name}`"
