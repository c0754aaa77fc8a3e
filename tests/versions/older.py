"""An older Treadle in an environment of its own, made from a revision of this repository and kept for the next time."""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PLACE = ROOT / ".nox" / "versions"

PROMISED = "da37fbec1c1d810e1bc5803f8c36eeeba6216126"
"""The oldest revision whose protocol is still spoken: 0.1.0 as it was before its golden files."""


class NoOlder(Exception):
    """There is nothing to be compared with; its text says what to do."""


@dataclass(frozen=True, slots=True)
class Version:
    """A Treadle that can be run: a name for people, the interpreter, and the newest schema that its server knows."""

    name: str
    python: str
    head: str


def oldest() -> str:
    """Return the oldest revision that is promised and that this clone has; else its newest tag. Raises `NoOlder`."""
    if _git("cat-file", "-e", f"{PROMISED}^{{commit}}").returncode == 0:
        return PROMISED
    # A shallow clone, or a copy that was made without its history.
    found = _git("describe", "--tags", "--abbrev=0")
    if found.returncode == 0:
        return found.stdout.strip()
    raise NoOlder(
        f"this clone has neither {PROMISED[:7]} nor a tag: get its history (git fetch --unshallow --tags), or name a"
        " revision: nox -s versions -- --old REV"
    )


def made(revision: str) -> Version:
    """Return the version of a revision, in an environment of its own. Raises `NoOlder` where there is none."""
    found = _git("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    if found.returncode:
        raise NoOlder(f"there is no revision {revision!r} in this clone: git log shows those that there are")
    commit = found.stdout.strip()
    place = PLACE / commit[:12]
    if not (place / "made").exists():
        _make(commit, place)
    versions = place / "packages/server/src/treadle_server/store/migrations/versions"
    return Version(f"old ({commit[:7]})", str(place / ".venv" / "bin" / "python"), _newest(versions))


def present(python: str) -> Version:
    """Return the version that is worked on."""
    versions = ROOT / "packages/server/src/treadle_server/store/migrations/versions"
    return Version("new", python, _newest(versions))


def _make(commit: str, place: Path) -> None:
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    archive = subprocess.run(["git", "-C", str(ROOT), "archive", commit], check=True, capture_output=True)
    subprocess.run(["tar", "-x", "-C", str(place)], input=archive.stdout, check=True)
    env = {name: value for name, value in os.environ.items() if name not in {"VIRTUAL_ENV", "UV_PROJECT_ENVIRONMENT"}}
    # From its own lock file: what it was released with, not what is new today.
    subprocess.run(["uv", "sync", "-q", "--group", "dev"], cwd=place, env=env, check=True)
    (place / "made").touch()


def _newest(versions: Path) -> str:
    return max(path.name for path in versions.glob("*_*.py")).partition("_")[0]


def _git(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False)
