"""The fenced blocks of the documents, and which of them are whole programs."""

import ast
import builtins
import re
import symtable
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("packages/*/README.md")]
)

FENCE = re.compile(r"^( *)(`{3,})(\w*)([^\n]*)\n(.*?)^\1\2 *$", re.MULTILINE | re.DOTALL)
SNIPPET = re.compile(r"^--8<--\n([^\s:]+)(?::(\d+):(\d+))?\n--8<--$", re.MULTILINE)
TITLE = re.compile(r'title="([^"]+)"')

COROUTINES = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
"""Notebooks, and what is shown of a function's inside, await where they stand."""

DUNDERS = {"__name__", "__file__", "__doc__"}


@dataclass(frozen=True)
class Block:
    """A fenced block, with the files that it shows put in."""

    page: str
    line: int
    language: str
    text: str
    title: str | None = None
    """Whose code it is, when it isn't Treadle's: it is not run here, and its packages are not installed."""

    @property
    def name(self) -> str:
        """Return where it stands, for a test's name."""
        return f"{self.page}:{self.line}"

    @property
    def file(self) -> str | None:
        """Return the file that it shows, which has tests of its own."""
        found = SNIPPET.search(self.text)
        return found[1] if found else None

    @property
    def code(self) -> str:
        """Return its text, or that of the file that it shows."""
        return SNIPPET.sub(_shown, self.text)

    @property
    def lines(self) -> tuple[int, int] | None:
        """Return the first and the last line that it shows of its file; None when it shows all of them."""
        found = SNIPPET.search(self.text)
        return (int(found[2]), int(found[3])) if found and found[2] else None


def blocks(*languages: str) -> Iterator[Block]:
    """Give every block in one of the languages, in all pages."""
    for page in PAGES:
        text = page.read_text()
        for match in FENCE.finditer(text):
            if match[3] in languages:
                line = text.count("\n", 0, match.start()) + 2
                title = TITLE.search(match[4])
                yield Block(page.relative_to(ROOT).as_posix(), line, match[3], match[5], title[1] if title else None)


def _shown(match: re.Match[str]) -> str:
    """Return what a snippet puts in: a file, or some of its lines."""
    lines = (ROOT / match[1]).read_text().splitlines(keepends=True)
    return "".join(lines[int(match[2]) - 1 : int(match[3])] if match[2] else lines)


def compiles(code: str) -> bool:
    """Return whether a block is Python at all."""
    try:
        compile(code, "block", "exec", flags=COROUTINES)
    except SyntaxError:
        return False
    return True


def unknown(code: str) -> set[str]:
    """Return the names that a block uses and nobody has given it: a whole program has none."""
    return _read(_table(code)) - set(dir(builtins)) - DUNDERS - defined(code)


def defined(code: str) -> set[str]:
    """Return the names that a block gives: what it imports, defines or assigns."""
    return {symbol.get_name() for symbol in _table(code).get_symbols() if symbol.is_assigned() or symbol.is_imported()}


def _table(code: str) -> symtable.SymbolTable:
    """Read code as a coroutine's, which may await: a program's own names are its local ones then."""
    inside = "".join(f"    {line}\n" for line in code.splitlines())
    whole = symtable.symtable(f"async def block():\n{inside}    pass\n", "block", "exec")
    # From Python 3.14 on a function's annotations are a scope of their own, beside it.
    return next(table for table in whole.get_children() if table.get_name() == "block")


def _read(table: symtable.SymbolTable) -> set[str]:
    """Return the names that are looked up beyond the block, here or in what is defined here."""
    found = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_global() and symbol.is_referenced()}
    return found.union(*(_read(child) for child in table.get_children()))
