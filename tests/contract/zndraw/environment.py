"""The virtual environment in which the real zndraw-joblib lives: its requirements and ours exclude each other."""

import os
import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.contract.zndraw import HERE

REQUIREMENTS = HERE / "requirements.txt"
CACHE = HERE.parents[2] / ".nox"
LIMIT = 240.0
"""Seconds that making the environment may take."""


def python_in(home: Path) -> Path:
    return home / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def interpreter(spare: Path) -> Path:
    """Return the environment's Python; the environment is made at the first use and kept.

    It is kept in `.nox`, or in the directory `spare` where the checkout can't be written.
    """
    cache = CACHE if os.access(CACHE if CACHE.exists() else CACHE.parent, os.W_OK) else spare
    cache.mkdir(exist_ok=True)
    home = cache / f"zndraw-joblib-{_fingerprint()}"
    if not python_in(home).exists():
        _make(home)
    return python_in(home)


def _fingerprint() -> str:
    """Return what tells environments apart: the requirements, and the Python that they were installed for."""
    made_of = REQUIREMENTS.read_bytes() + sys.version.encode() + sys.base_prefix.encode()
    return sha256(made_of).hexdigest()[:12]


def _make(home: Path) -> None:
    """Make the environment under another name and rename it, so that nobody ever sees half of it."""
    with TemporaryDirectory(dir=home.parent, prefix=f"{home.name}-", ignore_cleanup_errors=True) as directory:
        draft = Path(directory, "environment")
        if (uv := os.environ.get("UV") or shutil.which("uv")) is not None:
            _run(uv, "venv", "--python", sys.executable, str(draft))
            _run(uv, "pip", "install", "--python", str(python_in(draft)), "-r", str(REQUIREMENTS))
        else:
            _run(sys.executable, "-m", "venv", str(draft))
            _run(str(python_in(draft)), "-m", "pip", "install", "-r", str(REQUIREMENTS))
        try:
            draft.rename(home)
        except OSError:
            # Another process of this run was faster; its environment is as good.
            if not python_in(home).exists():
                raise


def _run(*command: str) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=LIMIT, cwd=HERE)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr[-4000:]}")
