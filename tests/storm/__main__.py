"""A storm over real processes: `uv run nox -s chaos -- --seconds 600 --seed 1 --database two`."""

import argparse
import asyncio
import random
import shutil
import sys
import tempfile
import traceback
from pathlib import Path

from tests.storm.session import storm
from tests.storm.site import Tools
from tests.storm.verdict import Verdict

DATABASES = {"sqlite": (1, False), "postgres": (1, True), "two": (2, True)}
"""How many servers, and whether on PostgreSQL."""


COLUMNS = ("database", "seed", "seconds", "faults", "tasks", "p50 s", "p99 s", "worst s", "machine's stall s", "load")


def main() -> int:
    """Run what is asked for, one storm after the other; 1 when something is not as it must be."""
    given = _arguments()
    wanted = list(DATABASES) if given.database == "all" else ["sqlite", "postgres"]
    if given.database in DATABASES:
        wanted = [given.database]
    found: list[Verdict] = []
    for seed in range(given.seed, given.seed + given.seeds):
        for name in wanted:
            found.append(_one(name, seed, given))
            found[-1].row |= {"database": name, "seed": str(seed), "seconds": f"{given.seconds:.0f}"}
            if len(found) > 1:
                print(_table(found), flush=True)
    return int(any(verdict.failures for verdict in found))


def _table(found: list[Verdict]) -> str:
    """Return a row for each storm, in Markdown; the verdicts of those that failed are told in full above it."""
    lines = ["| " + " | ".join((*COLUMNS, "verdict")) + " |", "|---" * (len(COLUMNS) + 1) + "|"]
    for one in found:
        verdict = "; ".join(text.partition("\n")[0][:100] for text in one.failures) or "holds"
        lines.append("| " + " | ".join((*(one.row.get(name, "") for name in COLUMNS), verdict)) + " |")
    return "\n".join(lines)


def _one(name: str, seed: int, given: argparse.Namespace) -> Verdict:
    servers, on_postgres = DATABASES[name]
    tools = Tools() if given.without_root else Tools.found(faketime=given.faketime)
    print(f"== {name}, seed {seed}, {given.seconds:.0f} s", flush=True)
    directory = Path(tempfile.mkdtemp(prefix="treadle-storm-"))
    # PostgreSQL runs as a user of its own, who is to reach what is his in it.
    directory.chmod(0o755)
    site = {"servers": servers, "tools": tools, "on_postgres": on_postgres}
    pace = {"seconds": given.seconds, "seed": seed, "rate": given.rate, "pause": given.pause}
    try:
        verdict = asyncio.run(storm(directory, site, **pace))  # type: ignore[arg-type]
    except Exception as error:  # noqa: BLE001 - a storm that could not be brought is told, and the next one comes
        traceback.print_exception(error)
        verdict = Verdict(failures=[f"it could not be brought to its end: {error!r}"])
    for failure in verdict.failures:
        print(f"FAILED: {failure}", flush=True)
    if verdict.failures or given.keep:
        print(f"{len(verdict.failures)} failures; logs and journal: {directory}", flush=True)
    else:
        shutil.rmtree(directory, ignore_errors=True)
    if not verdict.failures:
        print("nothing is lost, and nothing is twice", flush=True)
    return verdict


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=120.0, help="how long faults are brought")
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000), help="of faults and tasks")
    parser.add_argument("--seeds", type=int, default=1, help="how many, one after the other, for each kind of database")
    parser.add_argument("--database", choices=[*DATABASES, "both", "all"], default="sqlite")
    parser.add_argument("--rate", type=float, default=300.0, help="tasks a second")
    parser.add_argument("--pause", type=float, default=1.0, help="seconds between two faults, about")
    parser.add_argument("--faketime", action="store_true", help="clocks by libfaketime, not by the server's own seam")
    parser.add_argument("--keep", action="store_true", help="logs and history, though nothing is wrong with them")
    parser.add_argument("--without-root", action="store_true", help="no full disk")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
