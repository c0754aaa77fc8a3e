"""Workers that are killed with -9, busy and idle: what the screen says of them until they are lost, and after."""

import re
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from .site import Site, open_site, watching
from .test_watch import MEASURE, ROTATE, last_line_of, line_of
from .tmux import Terminal

pytestmark = pytest.mark.terminal

SETTINGS = {"TREADLE_LEASE_SECONDS": "15", "TREADLE_WORKER_TIMEOUT_SECONDS": "20"}
"""Leases end before their workers are lost, so that for a while these have nothing that anybody knows of."""


@pytest.fixture
def site() -> Iterator[Site]:
    with (
        TemporaryDirectory(prefix="treadle-") as directory,
        open_site(Path(directory), tasks=40, settings=SETTINGS) as site,
    ):
        yield site


@pytest.fixture
def terminal(site: Site) -> Iterator[Terminal]:
    with watching(site, ROTATE, "3/3 workers") as terminal:
        yield terminal


def test_5_three_busy_workers_killed_at_once_stay_dead(site: Site, terminal: Terminal) -> None:
    for worker in site.workers.values():
        worker.kill()

    terminal.until_it_says("0/3 workers")
    site.assert_that_connections_broke("web-1", "web-2", "lab-1")
    terminal.until(lambda screen: "✗ starved" in line_of(screen, ROTATE))
    terminal.press("3")

    def all_are_lost(screen: str) -> bool:
        """Also before they are, they have no moment in which one of them seems to live."""
        if "3 Workers" not in screen:
            return False
        # How many there are is not known while the server, or the whole machine, stands still.
        assert re.search(r" [0?]/3 workers", screen), screen
        assert not re.search("● busy|○ online", screen), screen
        return all("✗ lost" in last_line_of(screen, name) for name in site.workers)

    # First only their connections are known to have broken; then their beats are missed; then they are given up.
    terminal.until(lambda screen: all("! late" in last_line_of(screen, name) for name in site.workers))
    terminal.until(all_are_lost)
    terminal.press("1")
    shown = terminal.until(lambda screen: "✗ starved" in line_of(screen, ROTATE))
    assert "0/0" in line_of(shown, ROTATE)


def test_lost_workers_are_no_news_once_others_of_their_names_serve_and_are_removed(
    site: Site, terminal: Terminal
) -> None:
    site.workers["lab-1"].kill()
    terminal.until(lambda screen: "✗ starved" in line_of(screen, MEASURE))
    terminal.press("!")
    terminal.until(lambda screen: re.search(r"worker +lab-1 .* lost", screen))

    site.start_worker("lab-1")
    terminal.until(lambda screen: not re.search(r"worker +lab-1 ", screen))
    terminal.press("3")
    terminal.until_it_says("3/4 workers", "✗ lost")
    terminal.press("D")
    terminal.until_it_says("removed lab-1", "3/3 workers")
