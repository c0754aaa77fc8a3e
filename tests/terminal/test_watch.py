"""`treadle watch` in a real terminal, on a real server with 50,000 tasks and three workers, some of which are killed.

Needs tmux. `nox -s terminal` runs it; the default run leaves it out.
"""

import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
import pytest

from tests.waiting import SECONDS

from .site import TASKS, WATCH, Site, open_site, watching
from .tmux import Terminal, open_terminal

pytestmark = pytest.mark.terminal

ROTATE = "@global:modifiers:rotate"
MEASURE = "@global:analysis:measure"
RUNNING = 8
"""Two workers with four slots each."""

TURNS = 20
"""Changes that are looked for one after the other."""


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    # tmux refuses sockets with long paths, so pytest's own directories won't do.
    with TemporaryDirectory(prefix="treadle-") as directory, open_site(Path(directory)) as site:
        yield site


@pytest.fixture
def terminal(site: Site) -> Iterator[Terminal]:
    """A terminal in which the dashboard has come up."""
    with watching(site, ROTATE, "● running") as terminal:
        yield terminal


def highlighted(screen: str) -> str:
    """Return the end of the id in the task list's highlighted line."""
    return re.findall(r"\b[0-9a-f]{8}\b", last_line_of(screen, "│ >"))[0]


def go_to_the_last_task(terminal: Terminal) -> str:
    """Highlight the last of the 50,000, and return the screen."""
    terminal.press("2")
    terminal.until_it_says("space mark")
    terminal.press("G")
    return terminal.until(lambda screen: '{"angle": 49999}' in last_line_of(screen, "│ >"))


def marked_on(screen: str) -> set[str]:
    return set(re.findall(r"\* +\S+ +([0-9a-f]{8})", screen))


def last_line_of(screen: str, word: str) -> str:
    return line_of("\n".join(reversed(screen.splitlines())), word)


def line_of(screen: str, word: str) -> str:
    return next((line for line in screen.splitlines() if word in line), "")


def test_fifty_thousand_tasks_are_walked_filtered_and_opened(site: Site, terminal: Terminal) -> None:
    terminal.until(lambda screen: f"{site.waiting(ROTATE):,}" in line_of(screen, ROTATE))
    terminal.until(lambda screen: f"{TASKS:,}" in line_of(screen, "2 Tasks"))

    shown = go_to_the_last_task(terminal)
    assert f"-{TASKS:,} of {TASKS:,}" in line_of(shown, "rows ")
    assert f" {TASKS - RUNNING:,} " in last_line_of(shown, "│ >")

    terminal.press("/")
    terminal.until_it_says("enter filter")
    terminal.type("status:running")
    terminal.press("Enter")
    shown = terminal.until(lambda screen: f"  {RUNNING} of {TASKS:,}" in line_of(screen, "2 Tasks"))
    assert set(re.findall(r"\b[0-9a-f]{8}\b(?= ● running)", shown)) <= site.ends("running")

    first = highlighted(shown)
    terminal.press("Enter")
    shown = terminal.until_it_says(f"{first}  {ROTATE}", "run 0 on web-")
    terminal.press("Escape")
    terminal.until_it_says("1 Queues", "2 Tasks")


def test_a_task_is_paused_and_that_is_undone(site: Site, terminal: Terminal) -> None:
    last = highlighted(go_to_the_last_task(terminal))

    terminal.press("p")
    terminal.until_it_says("paused 1 task", "undo")
    assert site.ends("paused") == {last}

    terminal.press("u")
    terminal.until_it_says("undone")
    assert site.count("paused") == 0


def test_a_paused_task_is_resumed(site: Site, terminal: Terminal) -> None:
    go_to_the_last_task(terminal)

    terminal.press("p")
    terminal.until(lambda screen: "‖ paused" in line_of(screen, highlighted(screen)))
    terminal.press("r")
    terminal.until(lambda screen: "resumed 1 task" in screen and "○ pending" in line_of(screen, highlighted(screen)))

    assert site.count("paused") == 0


def test_tasks_are_cancelled_in_bulk_and_have_their_places_back_after_undo(site: Site, terminal: Terminal) -> None:
    go_to_the_last_task(terminal)
    terminal.press("Up", "Up", "Space", "Space", "Space")
    # A picture may be taken while the screen is drawn: the title can be ahead of the rows.
    marked = terminal.until(lambda screen: "3 marked" in screen and len(marked_on(screen)) == 3)
    ends = marked_on(marked)

    terminal.press("c")
    terminal.until_it_says("cancelled 3 tasks")
    assert site.ends("cancelled") == ends

    terminal.press("u")
    shown = terminal.until_it_says("undone")
    assert re.search(rf"rows (about )?49,9\d\d-.* of {TASKS:,}", shown), shown
    assert site.count("cancelled") == 0
    last = site.get("/tasks", job=ROTATE, limit=1)["items"][0]
    assert last["queue_position"] == TASKS - RUNNING


def test_5_a_worker_that_is_killed_is_late_its_queue_starved_and_it_is_lost_in_time(
    site: Site, terminal: Terminal
) -> None:
    terminal.until(lambda screen: "● open" in line_of(screen, MEASURE))

    site.workers["lab-1"].kill()

    terminal.until(lambda screen: "✗ starved" in line_of(screen, MEASURE))
    site.assert_that_connections_broke("lab-1")
    terminal.press("3")
    terminal.until(
        lambda screen: "◌ away" in last_line_of(screen, "lab-1") or "! late" in last_line_of(screen, "lab-1")
    )
    terminal.until(lambda screen: "✗ lost" in last_line_of(screen, "lab-1"))
    site.start_worker("lab-1")
    terminal.press("1")
    terminal.until(lambda screen: "● open" in line_of(screen, MEASURE))


def test_7_a_server_that_is_killed_is_said_to_be_gone_and_found_again(site: Site, terminal: Terminal) -> None:
    terminal.press("2")

    site.server.kill()
    terminal.until_it_says("No server", "old")
    terminal.press("c")
    terminal.until_it_says("no connection")

    site.server.start()
    shown = terminal.until(lambda screen: "● live" in screen and "No server" not in screen)
    assert f"{TASKS:,}" in line_of(shown, "2 Tasks")
    terminal.until(lambda screen: "● open" in line_of(screen, ROTATE))


def test_2_a_dashboard_over_fifty_thousand_tasks_takes_less_than_200_mb(terminal: Terminal) -> None:
    go_to_the_last_task(terminal)

    watched = psutil.Process(terminal.shell).children(recursive=True)
    assert sum(process.memory_info().rss for process in watched) < 200 * 2**20


@pytest.mark.parametrize("size", [(60, 15), (80, 24), (200, 50)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_8_the_dashboard_fits_the_terminal_whatever_its_size(terminal: Terminal, size: tuple[int, int]) -> None:
    terminal.resize(*size)

    shown = terminal.until(lambda screen: _fills(screen, *size))
    assert "2 Tasks" in shown


def _fills(screen: str, width: int, height: int) -> bool:
    frames = [line for line in screen.splitlines() if line.startswith(("┌", "└"))]
    return len(screen.splitlines()) == height and len(frames) >= 4 and all(len(line) == width for line in frames)


def test_a_terminal_is_as_it_was_when_the_dashboard_is_left(terminal: Terminal) -> None:
    assert terminal.ask("alternate_on") == "1"

    terminal.press("q")

    assert_sane(terminal)


def test_a_terminal_is_as_it_was_when_the_dashboard_was_killed(terminal: Terminal) -> None:
    watched = psutil.Process(terminal.shell).children(recursive=True)
    # Whoever started it is still there to clean up; the one that draws is the youngest.
    watched[-1].send_signal(signal.SIGKILL)

    assert_sane(terminal)


def test_a_dashboard_whose_complaints_go_into_a_file_is_drawn_on_the_terminal_alone(site: Site, tmp_path: Path) -> None:
    complaints = tmp_path / "complaints"

    with watching(site, ROTATE, "● running", told=complaints) as terminal:
        terminal.press("q")
        assert_sane(terminal)

    assert complaints.read_bytes() == b""


def test_8_a_terminal_of_another_encoding_is_drawn_on(site: Site) -> None:
    with TemporaryDirectory(prefix="treadle-") as name:
        environment = {**site.environment, "PYTHONIOENCODING": "latin-1"}
        with open_terminal(Path(name), environment) as terminal:
            terminal.enter(*WATCH)
            screen = terminal.until_it_says("live", ROTATE)

    assert screen.isascii()


def test_a_dashboard_whose_terminal_is_closed_ends(terminal: Terminal) -> None:
    watched = psutil.Process(terminal.shell).children(recursive=True)
    # Another window, so that tmux itself goes on.
    terminal.run("new-window", "-d")

    terminal.run("kill-window", "-t", ":0")

    _, alive = psutil.wait_procs(watched, timeout=SECONDS)
    assert alive == []


def test_3_what_is_committed_is_on_the_screen_at_once(site: Site, terminal: Terminal) -> None:
    """Told, not asked for: `nox -s bench-tui` has the quarter of a second."""
    terminal.until(lambda screen: "● open" in line_of(screen, ROTATE))

    began = time.monotonic()
    for turn in range(TURNS):
        wanted = f"{site.waiting(ROTATE) + 1:,}"
        site.submit(ROTATE, {"angle": TASKS + turn})
        terminal.until(lambda screen, wanted=wanted: wanted in line_of(screen, ROTATE), pause=0)

    assert time.monotonic() - began < 5 * TURNS, "more than a machine that stands still now and then takes"


def assert_sane(terminal: Terminal) -> None:
    """What is typed is seen and run again, and no mode of the dashboard's is left on."""
    terminal.until(lambda screen: screen.rstrip().endswith("ready>"))
    terminal.enter("stty", "-a")
    settings = terminal.until_it_says("stty -a", "icanon")
    assert re.search(r"(?<!-)\bicanon\b", settings)
    assert re.search(r"(?<!-)\becho\b", settings)
    assert re.search(r"(?<!-)\bonlcr\b", settings)
    modes = {name: terminal.ask(name) for name in ("alternate_on", "mouse_any_flag", "cursor_flag", "insert_flag")}
    assert modes == {"alternate_on": "0", "mouse_any_flag": "0", "cursor_flag": "1", "insert_flag": "0"}
