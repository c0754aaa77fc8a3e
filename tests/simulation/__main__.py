"""`python -m tests.simulation`: runs seeds, each a simulation of several servers; or one again, with its history."""

import argparse
import os
import random
import sys
import time
from collections import Counter

from tests.simulation.planted import PLANTED
from tests.simulation.running import Result, run_many, template
from tests.simulation.simulation import simulate


def _asked() -> argparse.Namespace:
    asked = argparse.ArgumentParser(prog="python -m tests.simulation")
    asked.add_argument("--seeds", type=int, help="how many; 1,000 when nothing else is asked for")
    asked.add_argument("--first", type=int, help="the first of them; a new one when it is left out")
    asked.add_argument("-j", type=int, default=1, dest="processes", help="processes")
    asked.add_argument("--seed", type=int, nargs="+", default=[], help="these")
    asked.add_argument("--history", action="store_true", help="with one --seed: prints what happened")
    asked.add_argument("--planted", choices=sorted(PLANTED), default="", help="with a fault, until it is found")
    return asked.parse_args()


def main() -> int:
    """Run what is asked for; return 1 when a seed failed, or a planted fault was not found."""
    given = _asked()
    if os.environ.get("PYTHONHASHSEED") != "0":
        # The order of sets of names hangs on it.
        os.execve(sys.executable, [sys.executable, "-m", "tests.simulation", *sys.argv[1:]], _settled())
    with template() as path:
        if given.history:
            outcome = simulate(given.seed[0], path, given.planted)
            print("\n".join([*outcome.journal.lines(), *outcome.failures]))
            return bool(outcome.failures)
        first = random.SystemRandom().randrange(10**9) if given.first is None else given.first
        count = given.seeds if given.seeds is not None else 0 if given.seed else 1_000
        seeds = [*given.seed, *range(first, first + count)]
        named = [*map(str, given.seed), f"{count} from {first}"]
        print("seeds", ", ".join(named), flush=True)
        began, done = time.monotonic(), list[Result]()
        for result in run_many(seeds, path, processes=given.processes, planted=given.planted):
            done.append(result)
            if result.failures:
                _tell(result, given.planted)
                if given.planted:
                    break
        return _sum_up(done, time.monotonic() - began, given.planted)


def _settled() -> dict[str, str]:
    return {**os.environ, "PYTHONHASHSEED": "0"}


def _tell(result: Result, planted: str) -> None:
    how = f" --planted {planted}" if planted else ""
    print(f"seed {result.seed} failed; again: python -m tests.simulation --seed {result.seed} --history{how}")
    for failure in result.failures[:8]:
        print(f"    {failure}")
    sys.stdout.flush()


def _sum_up(done: list[Result], seconds: float, planted: str) -> int:
    failed = sum(bool(one.failures) for one in done)
    faults = sum((one.faults for one in done), Counter[str]())
    print(
        f"{len(done)} seeds, {failed} failed, in {seconds:.1f} s ({sum(one.took for one in done):.1f} s of processors)"
    )
    print(f"{sum(one.simulated for one in done):.0f} simulated seconds, {sum(one.tasks for one in done)} tasks")
    print(f"{faults.total()} faults: " + ", ".join(f"{kind} {n}" for kind, n in sorted(faults.items())))
    if planted:
        print(f"{planted} was {'found' if failed else 'NOT found'}, by seed {len(done)} of those")
        return not failed
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
