"""A copy of the packages into which faults are put: the work tree is never changed."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import cache_from_source
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.mutants.faults import PACKAGES, ROOT, Fault

_WHERE = "import treadle, treadle_server; print(treadle.__file__); print(treadle_server.__file__)"


class Overlay:
    """The packages in a directory of their own, which stands before all others on the path."""

    def __init__(self, place: Path) -> None:
        self._place = place
        for name, source in PACKAGES.items():
            shutil.copytree(ROOT / source / name, place / name)

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment in which Python, and what it starts, finds these packages."""
        path = os.pathsep.join(filter(None, [str(self._place), os.environ.get("PYTHONPATH")]))
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        # What Hypothesis finds with a fault is no example for tests without one.
        return {**kept, "PYTHONPATH": path, "HYPOTHESIS_STORAGE_DIRECTORY": str(self._place / "hypothesis")}

    def check(self) -> None:
        """Raise `RuntimeError` when Python finds other packages than these."""
        asked = [sys.executable, "-c", _WHERE]
        said = subprocess.run(asked, env=self.environment, capture_output=True, text=True, check=True).stdout.split()
        if not all(Path(found).is_relative_to(self._place) for found in said):
            raise RuntimeError(f"the tests would run with {' and '.join(said)}, where no fault is put")

    @contextmanager
    def with_fault(self, fault: Fault) -> Iterator[None]:
        """Have the fault in the packages during the block. Raises `ValueError` when it does not fit."""
        path = self._place / fault.file
        text = path.read_text()
        changed = fault.applied(text)
        try:
            self._write(path, changed)
            yield
        finally:
            self._write(path, text)

    @staticmethod
    def _write(path: Path, text: str) -> None:
        path.write_text(text)
        # It tells by the second whether it is of an older text.
        Path(cache_from_source(path)).unlink(missing_ok=True)


@contextmanager
def overlay() -> Iterator[Overlay]:
    """Give a copy that is as the work tree."""
    with TemporaryDirectory(prefix="treadle-mutants-", ignore_cleanup_errors=True) as directory:
        made = Overlay(Path(directory).resolve())
        made.check()
        yield made
