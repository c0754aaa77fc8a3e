"""Fuzz every surface for minutes: `uv run nox -s fuzz -- --seconds 600 --seed 1`; 1 when something does not hold."""

import argparse
import itertools
import random
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from tests.fuzz import pure, served
from tests.fuzz.deep import Deep
from tests.fuzz.house import House, house

DEEP = "deep"


def main() -> int:
    """Share the time out between the targets; tell what was run and what does not hold."""
    given = _arguments()
    names = [target.name for target in pure.TARGETS] + [*served.NAMES_OF_TARGETS, DEEP]
    chosen = [name for name in names if given.only in {None, name}]
    # What is asked of a server is slower, and there is more of it: it has four times as long.
    weights = {name: 1 if name in names[: len(pure.TARGETS)] else 4 for name in chosen}
    each = given.seconds / max(1, sum(weights.values()))
    print(f"seed {given.seed}, {given.seconds:.0f} s, {len(chosen)} targets", flush=True)
    failed = 0
    for target in pure.TARGETS:
        if target.name in weights:
            failed += _one(target.name, lambda target=target: target.fuzz(each, given.seed))  # type: ignore[misc]
    if set(weights) & {*served.NAMES_OF_TARGETS, DEEP}:
        with tempfile.TemporaryDirectory(prefix="treadle-fuzz-") as directory, house(Path(directory)) as here:
            failed += _at_server(here, weights, each, given.seed)
    return int(failed > 0)


def _at_server(here: House, weights: dict[str, int], each: float, seed: int) -> int:
    failed, asked = 0, served.Asked(here)
    for target in served.targets(asked):
        if target.name in weights:
            here.answered.clear()
            failed += _one(target.name, lambda target=target: target.fuzz(4 * each, seed))  # type: ignore[misc]
            _tell({status: n for status, n in here.answered.items() if status})
    asked.close()
    if DEEP in weights:
        deep = Deep(here)
        failed += _one(DEEP, lambda: _deep(deep, 4 * each, seed))
        _tell(dict(deep.statuses))
        deep.close()
    return failed


def _deep(deep: Deep, seconds: float, seed: int) -> int:
    until, chance = time.monotonic() + seconds, random.Random(seed)
    for operation in itertools.cycle(deep.operations):
        if time.monotonic() > until:
            break
        deep.turn(operation, chance.getrandbits(64))
    return deep.statuses.total()


def _one(name: str, run: Callable[[], int]) -> bool:
    began = time.monotonic()
    try:
        count = run()
    except Exception as error:  # noqa: BLE001 - told, and the next target has its turn
        print(f"FAILED: {name} after {time.monotonic() - began:.0f} s", flush=True)
        traceback.print_exception(error, limit=-3)
        return True
    print(f"{name}: {count} examples in {time.monotonic() - began:.0f} s", flush=True)
    return False


def _tell(statuses: dict[int, int]) -> None:
    total = sum(statuses.values())
    if total:
        found = 1 - statuses.get(404, 0) / total
        print(f"  {found:.0%} of {total} answers were no 404: {dict(sorted(statuses.items()))}", flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=300.0, help="for all targets together")
    parser.add_argument("--seed", type=int, default=random.randrange(2**32), help="where the search begins")
    parser.add_argument("--only", help="one target")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
