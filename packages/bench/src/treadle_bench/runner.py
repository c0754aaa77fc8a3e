"""Runs the bench: every case on every database in turn, as often as requested."""

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, Field

from treadle_bench.bars import Verdict, verdicts
from treadle_bench.case import Case, rows_of
from treadle_bench.databases import Databases, open_databases
from treadle_bench.figures import NONE, BenchFailed, Failure, Ratio, Row, Sample
from treadle_bench.machine import describe, load, versions
from treadle_bench.peers import Peer, ratios
from treadle_bench.testbed import Soak, Testbed

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchOptions:
    """What to measure, on what, and how often."""

    cases: Sequence[Case]
    databases: Sequence[str]
    repeats: int
    scale: float
    scratch: Path
    postgres_url: str | None
    peers: Sequence[Peer]
    soak: Soak


class Report(BaseModel):
    """All results of a run."""

    command: str
    scale: float
    repeats: int
    machine: dict[str, str]
    versions: dict[str, str]
    rows: list[Row] = Field(default_factory=list)
    ratios: list[Ratio] = Field(default_factory=list)
    bars: list[Verdict] = Field(default_factory=list)
    failures: list[Failure] = Field(default_factory=list)
    left_out: str = ""


class Bench:
    """A run of the requested cases. `tell` is called with a line about each step."""

    def __init__(self, options: BenchOptions, tell: Tell) -> None:
        self._options = options
        self._tell = tell
        self._samples: dict[tuple[str, str], list[Sample]] = {}
        self._failures: dict[tuple[str, str], Failure] = {}

    def report(self, command: str) -> Report:
        """Measure everything and return the results; a case that fails is reported, and doesn't end the run."""
        with ExitStack() as stack:
            stack.enter_context(_ended_by_sigterm())
            machine = describe(self._options.scratch)
            databases, left_out = stack.enter_context(
                open_databases(self._options.databases, self._options.postgres_url, self._options.scratch)
            )
            if left_out:
                self._tell(left_out)
            known = versions() | databases.versions()
            for nth in range(self._options.repeats):
                self._round(nth, databases)
        return self._gather(
            Report(
                command=command,
                scale=self._options.scale,
                repeats=self._options.repeats,
                machine=machine | {"load after": load()},
                versions=known,
                left_out=left_out,
            )
        )

    def _round(self, nth: int, databases: Databases) -> None:
        for case in self._options.cases:
            if case.is_once and nth:
                continue
            for kind in (*databases.kinds, NONE):
                if kind in case.databases and (case.name, kind) not in self._failures:
                    self._measure(nth, case, kind, databases)
        for peer in self._options.peers:
            self._run_peer(nth, peer)

    def _measure(self, nth: int, case: Case, kind: str, databases: Databases) -> None:
        testbed = Testbed(
            database=kind,
            databases=databases,
            scratch=self._options.scratch,
            scale=self._options.scale,
            repeats=self._options.repeats,
            soak=self._options.soak,
        )
        self._tell(self._title(nth, case.name, kind, is_once=case.is_once))
        try:
            for sample in case.measure(testbed):
                self._samples.setdefault((case.name, kind), []).append(sample)
                at = "" if sample.x is None else f", {sample.x:,g} {case.axis}"
                self._tell(f"    {sample.figure}{at}: {sample.value:,.4g} {case.figure(sample.figure).unit}")
        except BenchFailed as error:
            self._fail(case.name, kind, error)

    def _run_peer(self, nth: int, peer: Peer) -> None:
        if (peer.name, NONE) in self._failures:
            return
        self._tell(self._title(nth, peer.name, "its own store", is_once=False))
        try:
            peer.run(self._options.scratch)
        except BenchFailed as error:
            self._fail(peer.name, NONE, error)

    def _title(self, nth: int, name: str, kind: str, *, is_once: bool) -> str:
        of = "" if is_once else f", {nth + 1} of {self._options.repeats}"
        return name + ("" if kind == NONE else f" on {kind}") + of

    def _fail(self, name: str, kind: str, error: BenchFailed) -> None:
        self._failures[name, kind] = Failure(case=name, database=kind, message=str(error))
        self._tell(f"    failed: {error}")

    def _gather(self, report: Report) -> Report:
        for case in self._options.cases:
            for kind in case.databases:
                report.rows += rows_of(case, kind, self._samples.get((case.name, kind), []))
        report.failures = list(self._failures.values())
        report.ratios = ratios(self._options.peers, report.rows)
        report.bars = verdicts(report.rows, report.ratios)
        return report


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Make SIGTERM end the block as Ctrl-C does, so that nothing is left running."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
