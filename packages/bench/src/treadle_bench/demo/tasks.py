"""The demo's tasks: `examine` analyses one Python file, `sum_up` adds up what the others found."""

import ast
import hashlib
import io
import tokenize
from collections.abc import Iterable
from pathlib import Path

from pydantic import BaseModel

from treadle import task

_NO_CODE = frozenset(
    {
        tokenize.COMMENT,
        tokenize.DEDENT,
        tokenize.ENCODING,
        tokenize.ENDMARKER,
        tokenize.INDENT,
        tokenize.NEWLINE,
        tokenize.NL,
    }
)


class Counts(BaseModel):
    """Counts of what is in one or more files."""

    files: int = 0
    size: int = 0
    lines: int = 0
    code_lines: int = 0
    functions: int = 0
    classes: int = 0
    imports: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        mine, theirs = self.model_dump(), other.model_dump()
        return Counts(**{name: mine[name] + theirs[name] for name in mine})


class Examined(Counts):
    """What is in one file, and its digest."""

    sha256: str


# A file that doesn't parse now won't parse in five seconds either: fail at once, with the traceback.
@task(max_retries=0, timeout=120)
def examine(path: str, root: str) -> Examined:
    """Read, tokenize and parse a Python file. Raises Python's own error for an invalid one."""
    source = Path(root, path).read_bytes()
    tree = ast.parse(source, filename=path)
    kinds = [type(node) for node in ast.walk(tree)]
    return Examined(
        files=1,
        size=len(source),
        lines=len(source.splitlines()),
        code_lines=len(_lines_of_code(tokenize.tokenize(io.BytesIO(source).readline))),
        functions=kinds.count(ast.FunctionDef) + kinds.count(ast.AsyncFunctionDef),
        classes=kinds.count(ast.ClassDef),
        imports=kinds.count(ast.Import) + kinds.count(ast.ImportFrom),
        sha256=hashlib.sha256(source).hexdigest(),
    )


@task(max_retries=0)
def sum_up(packages: dict[str, Counts]) -> Counts:
    """Add up the counts of all packages."""
    return sum(packages.values(), start=Counts())


def _lines_of_code(tokens: Iterable[tokenize.TokenInfo]) -> set[int]:
    """Return the numbers of the lines with code; a string counts with all its lines."""
    return {line for token in tokens if token.type not in _NO_CODE for line in range(token.start[0], token.end[0] + 1)}
