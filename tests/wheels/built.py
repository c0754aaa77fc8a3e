"""The distributions as they are built and installed: wheels, empty environments, and the README's three terminals."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]


@cache
def uv() -> str:
    """Return the `uv` that runs these tests, or else the one on the path."""
    found = os.environ.get("UV") or shutil.which("uv")
    assert found, "uv is not on the path: run the tests with `uv run --group dev`"
    return found


def run_uv(*arguments: str | Path) -> str:
    """Run uv in the repository, and return what it prints; what it complains of is shown when it fails."""
    ended = subprocess.run([uv(), *map(str, arguments)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def build(directory: Path) -> Path:
    """Build every sdist, and from each its wheel."""
    run_uv("build", "--all-packages", "--quiet", "--out-dir", directory)
    return directory


def metadata(wheel: Path) -> str:
    """Return a wheel's METADATA."""
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return archive.read(name).decode()


class Environment:
    """An environment with some of the distributions, and what they need, in the versions of `uv.lock`."""

    def __init__(self, place: Path, dist: Path, *names: str) -> None:
        self.scripts = place / "bin"
        self._python = self.scripts / "python"
        pins = place.with_suffix(".txt")
        pins.write_text(run_uv("export", "--frozen", "--all-groups", "--no-hashes", "--no-emit-workspace"))
        wheels = [next(dist.glob(f"{name}-*.whl")) for name in names]
        run_uv("venv", "--quiet", "--python", sys.executable, place)
        run_uv("pip", "install", "--quiet", "--python", self._python, "--constraint", pins, *wheels)

    def installed(self) -> set[str]:
        """Return the names of what is installed."""
        return set(re.findall(r"^([a-z0-9-]+)==", run_uv("pip", "list", "--format=freeze", "--python", self._python),
                              re.MULTILINE))  # fmt: skip


def terminals() -> list[list[str]]:
    """Return the commands of the README's three terminals, split into words, without `treadle` and what is behind #."""
    _, _, rest = (ROOT / "README.md").read_text().partition("## Three terminals")
    block = re.search(r"```sh\n(.*?)```", rest, re.DOTALL)
    assert block is not None
    return [shlex.split(line, comments=True)[1:] for line in block[1].splitlines()]
