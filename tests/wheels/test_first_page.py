"""The five minutes of docs/index.md, word for word, from the wheels: on each Python that is here."""

import os
import re
import shlex
import subprocess
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.wheels.built import ROOT, build
from tests.wheels.pythons import found
from tests.wheels.test_wheels import Site, line_with

PAGE = (ROOT / "docs/index.md").read_text()
INSTALL, TERMINALS, MORE = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)[:3]


@dataclass(frozen=True)
class Installed:
    """What the page's reader has installed."""

    scripts: Path


@pytest.mark.soak
@pytest.mark.parametrize("python", found().values(), ids=found())
def test_the_first_page_leads_to_a_first_task(python: str, tmp_path: Path) -> None:
    dist = build(tmp_path / "dist")
    site = Site(tmp_path)
    here = tmp_path / "here"
    (here / "thumbnails.py").write_text(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[0])
    names = ("treadle", "treadle_server", "treadle_tui")
    # Whatever an index has by these names, the wheels are taken.
    wheels = [f"{name} @ {next(dist.glob(f'{name}-*.whl')).as_uri()}" for name in names]
    (tmp_path / "wheels.txt").write_text("\n".join(wheels))
    path = os.pathsep.join([str(Path(python).parent), os.environ["PATH"]])
    shell = {**site.environment, "PATH": path, "PIP_CONSTRAINT": str(tmp_path / "wheels.txt")}
    serve, work, run = [shlex.split(line, comments=True) for line in TERMINALS.splitlines()]
    listed, submit, _watch = [shlex.split(line, comments=True)[1:] for line in MORE.splitlines()]

    subprocess.run(["bash", "-e", "-c", INSTALL], cwd=here, env=shell, check=True, stdout=subprocess.DEVNULL)

    installed = Installed(here / ".venv/bin")
    with ExitStack() as stack:
        serving = stack.enter_context(site.terminal(installed, *serve[1:]))
        site.environment["TREADLE_URL"] = line_with(serving, "Treadle serves ").split()[-1]
        working = stack.enter_context(site.terminal(installed, *work[1:]))
        line_with(working, "is open for 1 job")
        ran = subprocess.run(
            [installed.scripts / run[0], *run[1:]], cwd=here, env=site.environment,
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert ran.stderr == ""
        assert ran.stdout == "cat.png at 200 pixels\ndog.png at 200 pixels\n"
        assert site.run(installed, *listed).stdout.count("completed") == 2
        assert site.run(installed, *submit).stdout == "bird.png at 64 pixels\n"
