"""Random programs run against the model and the real thing, step by step, with a new seed each time (G2 to G5, L2).

The seed stands in the header; `TREADLE_TEST_LOCKSTEP_SEED` and `TREADLE_TEST_LOCKSTEP_SECONDS` (of the processor, for
all databases together) set the search, as `nox -s lockstep` does.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from tests.conftest import ReusedDatabase
from tests.model.running import Opening, Search, on_sqlite
from tests.model.worlds import TwoServers, World

SECONDS = 15.0
"""Of the processor, in the default run; `test_rules.py` takes six more."""

KINDS = ["sqlite", *(pytest.param(kind, marks=pytest.mark.postgres) for kind in ("postgres", "two"))]


def seconds() -> float:
    """Return how long each of the kinds is searched."""
    return float(os.environ.get("TREADLE_TEST_LOCKSTEP_SECONDS", SECONDS)) / len(KINDS)


@contextmanager
def _on_postgres(reused: ReusedDatabase, kind: type[World], directory: Path) -> Iterator[World]:
    yield kind(reused.take(), directory)
    reused.give_back()


@pytest.fixture
def opening(kind: str, request: pytest.FixtureRequest) -> Iterator[Opening]:
    """How worlds of the kind are opened."""
    if kind == "sqlite":
        yield partial(on_sqlite, template=request.getfixturevalue("sqlite_template"))
        return
    reused = request.getfixturevalue("reused_postgres")
    reused.drop()
    yield partial(_on_postgres, reused, TwoServers if kind == "two" else World)
    # Its sessions have a clock that stands still: nobody else's.
    reused.drop()


# Of the clock on the wall: what is found is shortened, too, and a busy machine takes its time.
@pytest.mark.timeout(900 + 10 * int(seconds()))
@pytest.mark.parametrize("kind", KINDS)
def test_the_server_does_what_the_model_does_g2_g3_g4_g5(kind: str, opening: Opening) -> None:
    search = Search(opening, servers=2 if kind == "two" else 1)

    search.run(int(os.environ["TREADLE_TEST_LOCKSTEP_SEED"]), seconds())

    print(f"{search.runs} programs, {search.steps} steps")
    assert search.steps > 0
