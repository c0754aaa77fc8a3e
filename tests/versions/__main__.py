"""Two versions of Treadle together, under load and held against the checker: `uv run nox -s versions -- --old REV`."""

import argparse
import asyncio
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.servers.postgres import OwnPostgres
from tests.versions.older import NoOlder, Version, made, oldest, present
from tests.versions.scenarios import Scenario, both, new_server, old_server, upgraded

ON_SQLITE: tuple[Scenario, ...] = (old_server, new_server, upgraded)
ON_POSTGRES: tuple[Scenario, ...] = (*ON_SQLITE, both)


def main() -> int:
    """Run every scenario; 1 when something is not as it must be."""
    given = _arguments()
    new = present(sys.executable)
    try:
        old = made(given.old or oldest())
    except NoOlder as error:
        print(error)
        return 1
    print(f"old: {old.name}, schema {old.head}; new: schema {new.head}; seed {given.seed}", flush=True)
    failed = 0
    for database, scenarios in (("sqlite", ON_SQLITE), ("postgres", ON_POSTGRES)):
        for scenario in scenarios:
            name = scenario.__name__.replace("_", "-")
            if given.database in {"both", database} and given.only in {None, name}:
                failed += _one(f"{name} on {database}", scenario, old, new, given)
    return int(failed > 0)


def _one(name: str, scenario: Scenario, old: Version, new: Version, given: argparse.Namespace) -> bool:
    print(f"== {name}: {scenario.__doc__}", flush=True)
    directory = Path(tempfile.mkdtemp(prefix="treadle-versions-"))
    # PostgreSQL runs as a user of its own, who is to reach what is his in it.
    directory.chmod(0o755)
    began = time.monotonic()
    postgres = OwnPostgres(directory) if name.endswith("postgres") else None
    url = f"sqlite:///{directory / 'treadle.db'}"
    if postgres is not None:
        postgres.start()
        url = postgres.url
    try:
        found = asyncio.run(scenario(directory, url, old, new, given.seconds, given.seed))
    finally:
        if postgres is not None:
            postgres.stop()
    for one in found[:20]:
        print(f"FAILED: {one}", flush=True)
    if found:
        print(f"{len(found)} failures; logs and journal: {directory}", flush=True)
    else:
        shutil.rmtree(directory, ignore_errors=True)
        print(f"  nothing is lost, and nothing is twice ({time.monotonic() - began:.0f} s)", flush=True)
    return bool(found)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="versions", description=__doc__)
    parser.add_argument("--old", help="a git revision; the oldest whose protocol is promised when it is left out")
    parser.add_argument("--seconds", type=float, default=12.0, help="of load in each scenario")
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000), help="of the tasks")
    parser.add_argument("--database", choices=["sqlite", "postgres", "both"], default="both")
    parser.add_argument("--only", help="one scenario: old-server, new-server, upgraded or both")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
