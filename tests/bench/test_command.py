"""`treadle bench`: its figures come from tasks that really ran, and say what they are; none is asserted to be fast."""

import json
import re
import signal
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil
import pytest

from tests.children import kill_all
from tests.waiting import SECONDS, look_until
from treadle_bench.bars import BARS, Found, verdicts
from treadle_bench.case import Case, rows_of
from treadle_bench.cases import drains
from treadle_bench.cases.drains import rate_of
from treadle_bench.cases.memory import judged as judged_memory
from treadle_bench.cases.soak import Look, judged
from treadle_bench.catalogue import BARRED, CASES, chosen
from treadle_bench.children import Children, without_treadle
from treadle_bench.figures import BOTH, NONE, BenchFailed, Figure, Ratio, Row, Sample, percentile
from treadle_bench.loads.observers import ages_of
from treadle_bench.machine import Memory
from treadle_bench.peers import COUNTERPARTS, Peer, find_peers, ratios
from treadle_bench.picture import Scale, draw
from treadle_server.app import create_app
from treadle_server.settings import Settings

COMMAND = (sys.executable, "-c", "from treadle.cli import main; main()", "bench")
NO_TREADLE = without_treadle()


def run_bench(*arguments: str | Path, code: int = 0) -> str:
    done = subprocess.run(
        [*COMMAND, *map(str, arguments)], env=NO_TREADLE, capture_output=True, text=True, timeout=110, check=False
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout if code == 0 else done.stdout + done.stderr


def quick(scratch: Path, *arguments: str | Path) -> Any:
    sizes = ("--scale", "0.002", "--repeats", "1", "--dir", scratch)
    return json.loads(run_bench(*arguments, *sizes, "--json", "-"))


def figures_of(report: Any, case: str) -> dict[str, list[float]]:
    return {row["figure"]: row["values"] for row in report["rows"] if row["case"] == case}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A look at some cases on SQLite, as small as can be."""
    return quick(tmp_path_factory.mktemp("scratch"), "limits", "drain", "latency", "start", "--database", "sqlite")


@pytest.mark.crossed
def test_each_case_that_was_asked_for_gives_each_of_its_figures(report: Any) -> None:
    measured = {name: set(figures_of(report, name)) for name in ("limits", "drain", "latency", "start")}
    of_postgresql = {"log written for a task", "rows written for a task"}

    assert report["failures"] == []
    assert measured == {name: {figure.name for figure in CASES[name].figures} - of_postgresql for name in measured}
    # A drain as small as this may be over before the system counts a hundredth of a second.
    smallest = {row["figure"]: min(row["values"]) for row in report["rows"]}
    assert smallest.pop("processor time") >= 0
    assert all(value > 0 for value in smallest.values()), smallest


@pytest.mark.crossed
def test_plain_http_is_measured_by_tasks_that_the_store_has(tmp_path: Path) -> None:
    report = quick(tmp_path, "http", "--database", "sqlite")

    assert report["failures"] == []
    assert set(figures_of(report, "http")) == {figure.name for figure in CASES["http"].figures}


@pytest.mark.crossed
def test_a_result_reaches_the_submitter_after_its_task_began(report: Any) -> None:
    latency = figures_of(report, "latency")

    # The load itself refuses a result that is no instant between the submit and its own arrival.
    assert latency["submit to result, p50"] > latency["submit to start, p50"]


@pytest.mark.crossed
def test_the_report_says_on_what_it_was_taken(report: Any) -> None:
    assert set(report["machine"]) == {"taken", "machine", "load before", "load after", "disk", "Python"}
    assert {"treadle", "treadle-server", "uvicorn", "SQLite"} <= set(report["versions"])
    assert "PostgreSQL" not in report["versions"]
    assert (report["scale"], report["repeats"]) == (0.002, 1)


@pytest.mark.crossed
def test_bars_are_those_of_the_cases_and_databases_that_were_measured(report: Any) -> None:
    bars = {(bar["what"], bar["database"]): bar["value"] for bar in report["bars"]}

    assert {what for what, _ in bars} == {bar.what for bar in BARS if bar.case in {"drain", "latency", "start"}}
    assert {database for _, database in bars} == {"sqlite", NONE}
    # Beside no peer nothing can be said of how far ahead it is.
    assert bars["drain, 1 worker, ahead of pgqueuer", "sqlite"] is None
    assert bars["submit to result of submit to start, p50", "sqlite"] > 1
    assert bars["import treadle, on the bar machine", NONE] > 0


@pytest.mark.postgres
@pytest.mark.crossed
def test_on_postgresql_a_drain_runs_on_a_database_of_its_own_that_is_dropped(tmp_path: Path, postgres_url: str) -> None:
    report = quick(tmp_path, "drain", "--database", "postgresql", "--postgres-url", postgres_url)

    assert {row["database"] for row in report["rows"]} == {"postgresql"}
    assert set(figures_of(report, "drain")) == {figure.name for figure in CASES["drain"].figures}
    # Its row, the claim and the completion, its run, and what is counted: more than three rows, and each is logged.
    assert figures_of(report, "drain")["rows written for a task"][0] > 3
    assert figures_of(report, "drain")["log written for a task"][0] > 300
    assert "synchronous_commit on" in report["versions"]["PostgreSQL"]
    assert databases_at(postgres_url) == []


def databases_at(url: str) -> list[str]:
    import asyncio

    import asyncpg

    async def look() -> list[str]:
        connection = await asyncpg.connect(url)
        try:
            found = await connection.fetch("SELECT datname FROM pg_database WHERE datname LIKE 'treadle_bench_%'")
        finally:
            await connection.close()
        return [row[0] for row in found]

    return asyncio.run(look())


@pytest.mark.soak
def test_a_curve_has_a_value_at_each_of_its_points_and_can_be_drawn_later(tmp_path: Path) -> None:
    saved, picture = tmp_path / "curves.json", tmp_path / "curves.svg"
    sizes = ("--scale", "0.002", "--repeats", "1", "--dir", tmp_path)

    run_bench("curve-observers", "--database", "sqlite", *sizes, "--json", saved)
    run_bench("--from", saved, "--svg", picture)

    points = {(row["figure"], row["x"]) for row in json.loads(saved.read_text())["rows"]}
    assert points == {(figure.name, x) for figure in CASES["curve-observers"].figures for x in (0, 1)}
    assert len(ET.fromstring(picture.read_text()).findall(".//{*}polyline")) == 3


@pytest.fixture(scope="module")
def soaked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a soak of seconds wrote: a report, and a picture beside it."""
    directory = tmp_path_factory.mktemp("soaked")
    saved, picture = directory / "soak.json", directory / "soak.svg"
    words = ("soak", "--minutes", "0.05", "--rate", "20", "--database", "sqlite", "--dir", directory)
    run_bench(*words, "--json", saved, "--svg", picture)
    return saved


@pytest.mark.crossed
def test_a_soak_tells_each_of_its_figures_over_time_and_has_a_verdict(soaked: Path) -> None:
    report = json.loads(soaked.read_text())

    assert report["failures"] == []
    assert {row["figure"] for row in report["rows"]} == {figure.name for figure in CASES["soak"].figures}
    over_time = [row for row in report["rows"] if row["x"] is not None]
    assert sorted({row["x"] for row in over_time}) == pytest.approx([n / 60 for n in (1, 2, 3)])
    assert min(row["values"][0] for row in over_time if not row["figure"].startswith("backlog")) > 0
    judged = {bar["what"]: bar["value"] for bar in report["bars"]}
    assert judged.keys() == {bar.what for bar in BARS if bar.case == "soak"}
    assert judged["soak: submitted, of what was asked"] == pytest.approx(1, abs=0.1)
    assert None not in judged.values()


@pytest.mark.crossed
def test_a_soak_is_drawn_a_chart_for_each_matter(soaked: Path) -> None:
    root = ET.fromstring(soaked.with_suffix(".svg").read_text())

    titles = [text.text for text in root.iterfind(".//{*}text[@class='title']")]
    assert [str(title).partition(":")[0] for title in titles] == [
        "memory", "descriptors", "files", "disk", "wait", "backlog",
    ]  # fmt: skip
    assert len(root.findall(".//{*}polyline")) == 9


def looks(**changes: Sequence[float]) -> list[Look]:
    """Six looks at a server that stays as it is, but for what is said of each."""
    same: dict[str, Any] = {
        "resident": 100.0, "own": 50.0, "descriptors": 40, "files": 5, "disk": 10.0, "starts": [2.0], "results": [3.0],
        "backlog": 0, "submitted": 99,
    }  # fmt: skip
    return [Look(**same | {name: values[nth] for name, values in changes.items()}) for nth in range(6)]


@pytest.mark.parametrize(
    ("changes", "missed"),
    [
        ({}, set()),
        ({"resident": [100, 100, 100, 102, 104, 106]}, {"growth over the second half"}),
        ({"resident": [300] * 6}, {"server"}),
        ({"descriptors": [40, 44, 48, 52, 56, 60]}, {"descriptors more, last third"}),
        ({"files": [5, 6, 7, 8, 9, 10]}, {"files more, last third"}),
        ({"starts": [[2.0]] * 4 + [[4.0]] * 2}, {"wait to the start, p99, last third of the one before"}),
        ({"backlog": [0, 0, 0, 0, 0, 101]}, {"backlog at the end"}),
        ({"submitted": [99, 99, 99, 99, 99, 80]}, {"submitted, of what was asked"}),
    ],
)
def test_a_soak_that_grows_or_falls_behind_misses_its_bar(changes: Any, missed: set[str]) -> None:
    samples = list(judged(looks(**changes), asked=594, rate=100))
    rows = rows_of(CASES["soak"], "sqlite", samples)

    found = {one.what.removeprefix("soak: ") for one in verdicts(rows, []) if one.met is False}

    assert found == missed


@pytest.mark.parametrize(
    ("resident", "missed"),
    [([150, 155, 157], set()), ([150, 155, 201], {"its growth over the last 70 %", "memory after 1,000,000 tasks"})],
)
def test_a_server_that_grows_while_a_million_tasks_pass_misses_its_bars(resident: list[int], missed: set[str]) -> None:
    sizes = {(n + 1) * 100_000: Memory(resident=size, own=50) for n, size in enumerate(resident)}
    rows = rows_of(CASES["memory"], "sqlite", list(judged_memory(sizes)))

    found = {one.what: one.met for one in verdicts(rows, [])}

    assert found.keys() == {bar.what for bar in BARS if bar.case == "memory"}
    assert {what for what, met in found.items() if met is not True} == missed


@pytest.fixture
def at_work(tmp_path: Path) -> Iterator[tuple["subprocess.Popen[str]", list[psutil.Process]]]:
    """A benchmark whose server runs, with its processes."""
    command = [*COMMAND, "memory", "--database", "sqlite", "--dir", str(tmp_path)]
    # SIGABRT shows where it stands.
    environment = NO_TREADLE | {"PYTHONFAULTHANDLER": "1"}
    bench = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        yield bench, look_until(lambda: workers_below(bench))
    finally:
        bench.kill()
        bench.communicate()


def code_of(bench: "subprocess.Popen[str]") -> int:
    """Return what it ends with; one that does not end says where it stands."""
    try:
        return bench.wait(SECONDS)
    except subprocess.TimeoutExpired:
        bench.send_signal(signal.SIGABRT)
        pytest.fail(bench.communicate()[1])


def workers_below(bench: "subprocess.Popen[str]") -> list[psutil.Process]:
    """Return the processes below, once there is a worker among them."""
    children = psutil.Process(bench.pid).children(recursive=True)
    return children if len(children) >= 3 else []


@pytest.mark.parametrize("sent", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.crossed)])
def test_a_signal_ends_it_and_leaves_neither_processes_nor_files(
    at_work: tuple["subprocess.Popen[str]", list[psutil.Process]], tmp_path: Path, sent: signal.Signals
) -> None:
    bench, children = at_work

    bench.send_signal(sent)

    assert code_of(bench) == 130
    assert psutil.wait_procs(children, timeout=SECONDS)[1] == []
    assert list(tmp_path.iterdir()) == []


def test_a_child_is_stopped_whose_end_was_asked_for_when_ctrl_c_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("treadle_bench.children.STOP_SECONDS", 0.1)
    monkeypatch.setattr("treadle_bench.children.REAP_SECONDS", 0.1)
    with Children(tmp_path, {}) as started:
        child = started.start("long", "import time; time.sleep(600)", module="timeit")
        # What a Ctrl-C leaves that comes in `poll`, between a lock and the `try` that releases it.
        assert child.process._waitpid_lock.acquire(blocking=False)  # type: ignore[attr-defined]

    child.process._waitpid_lock.release()  # type: ignore[attr-defined]
    assert child.process.wait(SECONDS) < 0


def test_kill_9_takes_its_processes_along(
    at_work: tuple["subprocess.Popen[str]", list[psutil.Process]],
) -> None:
    bench, children = at_work

    bench.kill()

    assert psutil.wait_procs(children, timeout=SECONDS)[1] == []


def processes_in(directory: Path) -> list[psutil.Process]:
    """Return the processes that were told of the directory."""
    return [
        one for one in psutil.process_iter(["name", "cmdline"]) if str(directory) in " ".join(one.info["cmdline"] or [])
    ]


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A directory whose name leaves room for the address of a Unix socket."""
    with TemporaryDirectory(prefix="treadle-", ignore_cleanup_errors=True) as directory:
        yield Path(directory)


@pytest.mark.postgres
def test_a_postgresql_that_does_not_start_is_told_with_its_reason(tmp_path: Path) -> None:
    scratch = tmp_path / ("long" * 25)
    scratch.mkdir()
    environment = {**NO_TREADLE, "TMPDIR": str(scratch), "XDG_RUNTIME_DIR": str(scratch)}

    refused = subprocess.run(
        [*COMMAND, "drain", "--database", "postgresql", "--dir", str(scratch)],
        check=False,
        env=environment,
        capture_output=True,
        text=True,
    )

    assert refused.returncode == 1
    assert "PostgreSQL did not start" in refused.stderr
    assert "socket path" in refused.stderr


@pytest.mark.postgres
def test_kill_9_takes_its_own_postgresql_along(short_path: Path) -> None:
    command = [*COMMAND, "drain", "--database", "postgresql", "--dir", str(short_path)]
    environment = {**NO_TREADLE, "TMPDIR": str(short_path)}
    bench = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        assert bench.stderr is not None
        assert "drain on postgresql" in bench.stderr.readline()
        database = processes_in(short_path)
        assert any("postgres" in process.info["name"] for process in database)  # type: ignore[attr-defined]

        bench.kill()

        assert psutil.wait_procs(database, timeout=SECONDS)[1] == []
    finally:
        bench.kill()
        bench.communicate()
        kill_all(processes_in(short_path))


def test_the_list_names_every_case_and_measures_nothing() -> None:
    printed = run_bench("--list")

    assert [name for name in CASES if not re.search(rf"^{re.escape(name)}\b", printed, re.MULTILINE)] == []


def test_a_case_that_there_is_not_is_refused() -> None:
    assert "there is no case 'nonsense'" in run_bench("nonsense", code=2)


def test_without_a_name_everything_with_a_bar_is_measured_and_no_curve() -> None:
    assert chosen([]) == list(BARRED)
    assert {case.name for case in BARRED} == {bar.case for bar in BARS} | {"limits"}
    assert [case.name for case in chosen(["start", "bars", "start"])].count("start") == 1


def test_every_bar_is_for_a_database_that_the_case_runs_on() -> None:
    odd = [bar.what for bar in BARS if not set(bar.limits) <= set(CASES[bar.case].databases) <= {*BOTH, NONE}]

    assert odd == []


def test_every_bar_is_reckoned_from_figures_that_there_are() -> None:
    """With one value for each figure, and a peer for all that one is compared with, no bar is left out."""
    rows = [
        Row(case=case.name, database=database, figure=one.name, unit=one.unit, is_rate=one.is_rate, values=[2.0])
        for case in CASES.values()
        for database in case.databases
        for one in case.figures
    ]
    compared = [
        Ratio(
            peer="pgqueuer 1",
            case=row.case,
            database=row.database,
            figure=row.figure,
            unit="",
            ours=2,
            theirs=1,
            ratio=2,
        )
        for row in rows
        if (row.case, row.figure) in COUNTERPARTS
    ]

    judged = verdicts(rows, compared)

    assert [one.what for one in judged if one.value is None] == []
    assert len(judged) == sum(len(bar.limits) for bar in BARS)


CASE = Case(
    name="sprint",
    summary="",
    figures=(Figure(name="speed", unit="m/s"), Figure(name="time", unit="s", is_rate=False)),
    measure=lambda _: [],
)


def test_a_row_has_the_values_of_all_repetitions_and_their_median() -> None:
    samples = [Sample("speed", 9), Sample("time", 3), Sample("speed", 11), Sample("speed", 12)]

    speed, time = rows_of(CASE, "sqlite", samples)

    assert (speed.values, speed.median) == ([9, 11, 12], 11)
    assert time.values == [3]


@pytest.mark.parametrize(("gain", "cost", "met"), [(4.9, 10.1, (False, False)), (5.0, 10.0, (True, True))])
def test_a_bar_is_a_floor_or_a_ceiling(gain: float, cost: float, met: tuple[bool, bool]) -> None:
    rows = [row_of("batching", "gain", gain), row_of("observers", "cost", cost, is_rate=False)]

    by_what = {one.what: one.met for one in verdicts(rows, [])}

    assert (by_what["gain of batches"], by_what["20 observers' cost"]) == met
    assert by_what["20 observers' lag, p95"] is None


def test_times_are_those_of_the_bar_machine() -> None:
    """A machine with a quarter of the INSERTs and the same echo is twice as slow."""
    limits = [row_of("limits", "single INSERT", 1_500), row_of("limits", "echo", 0.1, is_rate=False)]
    for row in limits:
        row.database = NONE
    rows = [*limits, row_of("reads", "position of a task", 18, is_rate=False)]

    by_what = {one.what: one for one in verdicts(rows, [])}

    assert Found(rows, []).slowness() == 2
    assert by_what["position of a task, on the bar machine"].value == 9
    assert by_what["position of a task, on the bar machine"].met is True


def test_what_is_shown_grows_older_until_the_next_change_is_shown() -> None:
    ages = ages_of([(100.0, 50.0), (200.0, 199.9), (200.05, 200.05), (200.06, 200.06)])

    assert [round(age) for age in ages] == [100, 110, 120, 130, 140, 150, 0, 10]


def test_a_drain_ends_between_two_looks_where_the_wanted_task_was_completed() -> None:
    whole = rate_of(100, 10.0, drains.CompletedAt(10.5, 50), drains.CompletedAt(11.0, 100))
    half = rate_of(100, 10.0, drains.CompletedAt(10.5, 50), drains.CompletedAt(11.5, 150))

    assert (whole, half) == (100.0, 100.0)


def test_a_look_before_the_first_start_does_not_make_a_drain_faster() -> None:
    assert rate_of(50, 10.0, drains.CompletedAt(2.0, 0), drains.CompletedAt(11.0, 100)) == 100.0


def test_percentiles_are_values_that_were_measured() -> None:
    values = [float(n) for n in range(200, 0, -1)]

    assert (percentile(values, 0.5), percentile(values, 0.99)) == (101.0, 198.0)
    assert (percentile([7.0], 0.5), percentile([7.0], 0.99)) == (7.0, 7.0)


PEER = """
import json, os, sys
print("noise")
print(json.dumps({"peer": "snail 1.0", "drain_20k": {"median": 500}, "drain_50k": {"median": 400},
                  "submit_to_start": {"p50_ms": 8}, "repeats": os.environ["PEER_REPEATS"], "python": sys.argv[0]}))
"""


@pytest.fixture
def snail(tmp_path: Path) -> Peer:
    (tmp_path / "snail_peer.py").write_text(PEER)
    (tmp_path / "README.md").write_text("Run it so:\n\n    uv run --no-project python bench/snail_peer.py\n")
    (peer,) = find_peers(tmp_path)
    assert peer.command == ["uv", "run", "--no-project", "python", str(tmp_path / "snail_peer.py")]
    peer.command[:4] = [sys.executable]
    return peer


def row_of(case: str, figure: str, value: float, *, is_rate: bool = True) -> Row:
    return Row(case=case, database="sqlite", figure=figure, unit="u", is_rate=is_rate, values=[value])


def test_a_peer_is_compared_by_its_best_figure_and_ahead_is_above_one(snail: Peer, tmp_path: Path) -> None:
    ours = [row_of("drain", "1 worker", 1000), row_of("latency", "submit to start, p50", 2, is_rate=False)]

    snail.run(tmp_path)
    drain, latency = ratios([snail], ours)

    assert snail.rounds[0]["repeats"] == "1"
    assert (drain.peer, drain.theirs, drain.ratio) == ("snail 1.0", 500, 2.0)
    assert (latency.theirs, latency.ratio) == (8, 4.0)


def test_what_a_peer_does_not_measure_is_not_compared(snail: Peer, tmp_path: Path) -> None:
    snail.run(tmp_path)

    assert ratios([snail], [row_of("submit", "one by one", 1), row_of("memory", "server", 1)]) == []


def test_a_peer_that_fails_says_why(tmp_path: Path) -> None:
    (tmp_path / "broken_peer.py").write_text("raise SystemExit('no store here')")
    peer = Peer("broken", [sys.executable, str(tmp_path / "broken_peer.py")])

    with pytest.raises(BenchFailed, match="no store here"):
        peer.run(tmp_path)


def test_a_directory_without_peers_is_refused(tmp_path: Path) -> None:
    assert "has no *_peer.py" in run_bench("start", "--against", tmp_path, code=2)


def test_a_picture_has_a_line_for_each_database_and_figure_and_escapes_its_texts() -> None:
    rows = [
        Row(case="curve-<b>", database=database, figure="drain", unit="u", is_rate=True, x=x, axis="a & b", values=[y])
        for database in BOTH
        for x, y in ((0, 10), (1, 20), (1000, 3000))
    ]

    root = ET.fromstring(draw(rows))

    lines = root.findall(".//{*}polyline")
    texts = [text.text for text in root.iterfind(".//{*}text")]
    assert [len(line.attrib["points"].split()) for line in lines] == [3, 3]
    assert texts[0] == "<b>: drain, u"
    assert "a & b" in texts


def test_a_scale_is_logarithmic_and_nothing_stands_left_of_its_start() -> None:
    scale = Scale(1, 100, 0, 200)

    assert [scale.place(value) for value in (0, 1, 10, 100)] == [0, 0, 100, 200]


@pytest.mark.parametrize(
    ("high", "ticks"), [(10.5, [0, 5, 10]), (139, [0, 50, 100]), (0.5, [0, 0.2, 0.4]), (8.4, [0, 2.5, 5, 7.5])]
)
def test_over_time_equal_steps_are_equal_distances_and_ticks_are_round(high: float, ticks: list[float]) -> None:
    scale = Scale(0, high, 0, 100, is_even=True)

    assert scale.ticks() == pytest.approx(ticks)
    assert [scale.place(share * high) for share in (0, 0.25, 1)] == pytest.approx([0, 25, 100])


@pytest.mark.parametrize("option", ["--json", "--svg"])
def test_a_report_that_can_t_be_written_is_told_before_anything_is_measured(tmp_path: Path, option: str) -> None:
    sizes = ("--scale", "0.002", "--repeats", "1", "--database", "sqlite", "--dir", tmp_path)

    told = run_bench("drain", option, tmp_path / "none" / "file", *sizes, code=1)

    assert told == (
        f"Error: {tmp_path}/none/file can't be written (No such file or directory): check its permissions and disk\n"
    )


def test_the_writer_commits_as_many_tasks_at_once_as_the_setting_says(tmp_path: Path) -> None:
    default = create_app(Settings(data_dir=tmp_path))
    single = create_app(Settings(data_dir=tmp_path, writer_max_rows=1))

    assert default.state.ctx.engine.most_rows == 1000
    assert single.state.ctx.engine.most_rows == 1
