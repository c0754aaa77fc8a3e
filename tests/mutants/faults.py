"""The faults: which text of which file becomes which other, and which net must find that."""

import ast
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]

TABLE = Path(__file__).parent / "table"

PACKAGES = {"treadle": Path("packages/worker/src"), "treadle_server": Path("packages/server/src")}
"""Where the packages stand whose faults these are."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that could be wrong."""

    name: str
    """What is wrong, as a sentence whose words are joined by hyphens."""
    file: str
    """Below the directory in which its package stands: `treadle_server/domain/life.py`."""
    old: str
    new: str
    net: str
    """A test by its pytest id, or the name of one of `nets.NAMED`."""

    @property
    def area(self) -> str:
        """Return the part of the product that it is in: the package, and in the server its layer."""
        package, *folders, _ = Path(self.file).parts
        return "sdk" if package == "treadle" else (folders or ["server"])[0]

    @property
    def path(self) -> Path:
        """Return the file in the repository, relative to its root."""
        return PACKAGES[Path(self.file).parts[0]] / self.file

    def placed(self, text: str) -> str:
        """Return the file's text with the fault in it. Raises `ValueError` unless its old text is there just once."""
        if (found := text.count(self.old)) != 1:
            raise ValueError(f"{self.name}: its old text stands {found} times in {self.file}, not once; write it anew")
        if self.old.split() == self.new.split():
            raise ValueError(f"{self.name}: its new text says the same as its old one")
        return text.replace(self.old, self.new)

    def applied(self, text: str) -> str:
        """Return it as `placed` does, and raise `ValueError` also when it is no Python then: that takes its time."""
        changed = self.placed(text)
        try:
            ast.parse(changed)
        except SyntaxError as error:
            raise ValueError(f"{self.name}: {self.file} is no Python with it: {error}") from None
        return changed


def all_faults() -> list[Fault]:
    """Return every fault, in the order of the files of the table. Raises `ValueError` when a name stands twice."""
    found: dict[str, Fault] = {}
    for path in sorted(TABLE.glob("*.toml")):
        for name, values in tomllib.loads(path.read_text()).items():
            if name in found:
                raise ValueError(f"{name} stands in two files of the table")
            found[name] = Fault(name, **values)
    return list(found.values())
