"""Puts each fault into a copy of the packages and runs the net that must find it: `nox -s mutants -- --list`."""

import argparse
import queue
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack

from tests.mutants import report
from tests.mutants.faults import Fault, all_faults
from tests.mutants.nets import Verdict, cast
from tests.mutants.overlay import Overlay, overlay

SOUND_LIMIT = 1800.0
"""Seconds that all nets together may take on packages without a fault."""


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="nox -s mutants --", description=__doc__)
    parser.add_argument("--list", action="store_true", help="show the faults and their nets, and run nothing")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="this fault alone; again for more")
    parser.add_argument("--area", action="append", default=[], metavar="AREA", help="those of one layer: engine, sdk …")
    parser.add_argument("--net", metavar="NET", help="another net than the table's, to see what it finds")
    parser.add_argument("--unsure", action="store_true", help="don't look first whether the nets hold without a fault")
    parser.add_argument("--table", action="store_true", help=f"write what was found into {report.PAGE.name}")
    parser.add_argument("-j", type=int, default=1, metavar="N", help="so many at once")
    return parser.parse_args()


def _chosen(asked: argparse.Namespace) -> list[Fault]:
    faults = all_faults()
    if unknown := set(asked.only) - {fault.name for fault in faults}:
        sys.exit(f"there is no fault {', '.join(sorted(unknown))}: --list shows their names")
    return [
        fault
        for fault in faults
        if (not asked.only or fault.name in asked.only) and (not asked.area or fault.area in asked.area)
    ]


def _nets_of(fault: Fault, asked: argparse.Namespace) -> list[str]:
    return asked.net.split() if asked.net else [fault.net]


def _check_sound(faults: Sequence[Fault], asked: argparse.Namespace) -> None:
    """End when a net says that something is wrong while nothing is."""
    nets = sorted({net for fault in faults for net in _nets_of(fault, asked)})
    with overlay() as sound:
        verdict = cast(nets, sound, limit=SOUND_LIMIT)
    if verdict.is_red or verdict.is_broken:
        print(verdict.said[-5000:])
        sys.exit(f"without any fault {verdict.by or 'the nets'} does not hold: nothing can be said of the faults")
    print(f"{len(nets)} nets hold without a fault ({verdict.seconds:.0f} s)", flush=True)


def _try(fault: Fault, free: "queue.SimpleQueue[Overlay]", asked: argparse.Namespace) -> Verdict:
    mine = free.get()
    try:
        with mine.with_fault(fault):
            return cast(_nets_of(fault, asked), mine)
    finally:
        free.put(mine)


def _tell(fault: Fault, verdict: Verdict) -> None:
    if verdict.is_broken:
        print(verdict.said[-2000:])
        print(f"NOT RUN    {fault.name}: {fault.net}", flush=True)
    elif verdict.is_red:
        print(f"{verdict.seconds:5.1f} s    {fault.name}: {verdict.by}", flush=True)
    else:
        print(f"NOT FOUND  {fault.name}: {fault.net} ({verdict.seconds:.1f} s)", flush=True)


def main() -> int:
    """Return 0 when every fault was found."""
    asked = _arguments()
    faults = _chosen(asked)
    if asked.list:
        for fault in faults:
            print(f"{fault.area:10} {fault.name}: {fault.net}")
        print(f"{len(faults)} faults")
        return 0
    if not asked.unsure:
        _check_sound(faults, asked)
    verdicts: dict[str, Verdict] = {}
    with ExitStack() as stack, ThreadPoolExecutor(asked.j) as pool:
        free: queue.SimpleQueue[Overlay] = queue.SimpleQueue()
        for _ in range(asked.j):
            free.put(stack.enter_context(overlay()))
        trying = {pool.submit(_try, fault, free, asked): fault for fault in faults}
        for done in as_completed(trying):
            verdicts[trying[done].name] = done.result()
            _tell(trying[done], done.result())
    lost = [fault.name for fault in faults if not verdicts[fault.name].is_red]
    slowest = max(faults, key=lambda fault: verdicts[fault.name].seconds)
    print(f"{len(faults) - len(lost)} of {len(faults)} found; the slowest: {slowest.name}", end=" ")
    print(f"({verdicts[slowest.name].seconds:.1f} s)")
    if lost:
        print("not found:", *lost, sep="\n  ")
    if asked.table:
        report.write(all_faults(), verdicts)
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
