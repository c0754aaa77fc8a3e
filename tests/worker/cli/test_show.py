"""`treadle task`, `tasks` and `targets`: what they show."""

import re

import pytest
from rich.cells import cell_len

from tests.worker.cli.conftest import Command, Shop
from tests.worker.cli.pseudo import Terminal, text_of
from treadle.cli.show import print_table


def test_a_task_is_shown_with_its_runs_times_workers_and_whole_tracebacks_t4(command: Command, shop: Shop) -> None:
    task = shop.submit(payload={"n": 1}, max_retries=1, retry_base=0, budget=10)
    for run in range(2):
        shop.start(task)
        shop.report(task, "checkpoint", run=run, checkpoint={"page": run})
        shop.report(task, "failed", run=run, error=f"boom {run}", traceback=f"Traceback\n  line {run}", usage=run + 1)

    shown = command.said("task", task)

    times = r"claimed \d\d:\d\d:\d\d, started \d\d:\d\d:\d\d, ended \d\d:\d\d:\d\d in \d"
    for run in range(2):
        assert re.search(rf"run {run} +failed \(error\) by {shop.worker_id} {times}.* - boom {run}\n", shown)
        assert f"\n  Traceback\n    line {run}\n" in shown
    for line in ("status     failed (error)", 'checkpoint {"page": 1}', "retries    1 of 1", "usage      3 of 10"):
        assert line in shown
    assert "Traceback" not in command.said("task", task, "--no-traceback")


@pytest.mark.parametrize(
    ("name", "value", "is_styled"), [("NO_COLOR", "1", False), ("TERM", "dumb", False), ("NO_COLOR", "", True)]
)
def test_nothing_is_styled_for_who_wants_no_colour_and_a_terminal_that_has_none(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, *, is_styled: bool
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv(name, value)

    _, shown = Terminal(monkeypatch).during(lambda: print_table(("id",), [("x",)], empty=""))

    assert text_of(shown) == "ID\nx\n"
    assert ("\x1b[" in shown) is is_styled


def test_what_a_name_holds_is_spelt_out_in_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("name",), [("a\nb",), ("a  b\t",)], empty="")

    assert capsys.readouterr().out == "NAME\na\\nb\na  b\\t\n"


def test_a_running_task_is_shown_with_its_progress_and_the_last_lines_that_it_logged(
    command: Command, shop: Shop
) -> None:
    task = shop.submit()
    shop.start(task)
    shop.report(task, "progress", share=0.25, message="page 1 of 4")
    shop.report(task, "logs", lines=[{"message": f"line {n}", "level": "warning"} for n in range(30)])

    shown = command.said("task", task)

    assert "progress   25% page 1 of 4\n" in shown
    logged = [int(line.split()[-1]) for line in shown.splitlines() if line.startswith("log 0")]
    assert logged == list(range(10, 30))
    assert "log 0" not in command.said("task", task, "--logs", "0")
    assert len(command.read("task", task, "--logs", "25")["logs"]) == 25


def test_what_waits_for_a_target_shows_who_holds_it_and_why_l7(command: Command, shop: Shop) -> None:
    holder, waiting = shop.submit(target="robot"), shop.submit(target="robot")
    shop.start(holder)

    assert f"blocked by {holder} (running)\n" in command.said("task", waiting)
    command.said("pause", holder)
    shop.report(holder, "paused")
    assert f"blocked by {holder} (paused)\n" in command.said("task", waiting)
    about = command.read("task", waiting)
    assert (about["task"]["blocked_by"], about["target"]["cause"]) == ([holder], "paused")
    command.said("resolve", holder)
    assert "status     completed, settled by hand\n" in command.said("task", holder)
    assert "blocked by" not in command.said("task", waiting)


def test_targets_are_listed_with_what_holds_them_and_who_waits_l7(command: Command, shop: Shop) -> None:
    holder = shop.submit(target="arm")
    shop.start(holder)
    waiting, free = shop.submit(target="arm"), shop.submit(target="leg")
    shop.report(holder, "failed", error="x")

    rows = {line.split()[0]: line for line in command.said("targets").splitlines()}
    one = command.said("targets", "arm")

    assert re.fullmatch(rf"arm +failed +[\d.]+s ago +- +{holder} +1 +{waiting}", rows["arm"])
    assert re.fullmatch(rf"leg +free +- +- +- +1 +{free}", rows["leg"])
    assert re.search(rf"held +failed, since [\d.]+s ago: {holder} of {shop.job}, run 0\n", one)
    assert f"next       {waiting}\n" in one
    assert "leg" not in command.said("targets", "--held")
    assert [item["name"] for item in command.read("targets", "--held")["items"]][:1] == ["arm"]
    assert command.read("targets", "arm")["holders"][0]["cause"] == "failed"
    assert command.said("targets", "leg").splitlines()[1] == "free"
    assert command.said("targets", "--room", "attic") == "No targets in attic.\n"
    assert "Target not found" in command.refused("targets", "nose")
    assert "Invalid room" in command.refused("targets", "--room", "a:b")
    assert "treadle server" in command.refused("targets", TREADLE_URL="http://127.0.0.1:1")


def test_tasks_are_found_by_the_filters_of_the_dashboard(command: Command, shop: Shop) -> None:
    task = shop.submit(tags={"kind": "a b"}, payload={"n": "zebra"})
    shop.submit()

    def found(*words: str) -> list[str]:
        return [item["id"] for item in command.read("tasks", f"job:{shop.job}", *words)["items"]]

    assert found('tag:"kind=a b"') == found("status:open", "zebra") == found(f"id:{task[:30]}") == [task]
    assert len(found("status:open")) == 2
    assert found("status:done") == []
    assert "no status" in command.refused("tasks", "status:odd", code=2)


@pytest.mark.parametrize("words", [["tasks"], ["jobs"], ["workers"], ["targets"], ["task", "0199"]])
def test_without_a_server_every_list_says_what_to_do(command: Command, words: list[str]) -> None:
    said = command.refused(*words, TREADLE_URL="http://127.0.0.1:1")

    assert "start one with `treadle server`" in said
    assert "Traceback" not in said


def test_columns_stand_under_each_other_whatever_is_written_in_them(capsys: pytest.CaptureFixture[str]) -> None:
    names = ["plain", "測試佇列", "🚀 go", "e\u0301te\u0301"]

    print_table(("name", "n"), [(name, number) for number, name in enumerate(names)], empty="none")

    _, *lines = capsys.readouterr().out.splitlines()
    assert {cell_len(line) for line in lines} == {len("測試佇列") * 2 + 2 + 1}
