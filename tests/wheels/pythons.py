"""The Pythons that are supported, and where they are found: on the path, pyenv's, and uv's."""

import os
import shutil
from functools import cache
from pathlib import Path

VERSIONS = ("3.11", "3.12", "3.13", "3.14", "3.15")


@cache
def found() -> dict[str, str]:
    """Return the interpreters that are here, by version; shims, which ask for another choice, are none."""
    places = os.environ.get("PATH", "").split(os.pathsep)
    places += [str(path) for path in (Path.home() / ".pyenv/versions").glob("3.*/bin")]
    data = Path(os.environ.get("UV_PYTHON_INSTALL_DIR") or Path.home() / ".local/share/uv/python")
    places += [str(path) for path in data.glob("cpython-3.*/bin")]
    here = {
        version: path
        for version in VERSIONS
        for place in reversed(places)
        if (path := shutil.which(f"python{version}", path=place)) and "shims" not in path
    }
    return {version: here[version] for version in VERSIONS if version in here}


if __name__ == "__main__":
    for version in VERSIONS:
        print(f"{version}: {found().get(version) or f'not found; uv python install {version}'}")
