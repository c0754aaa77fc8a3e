"""Some simulations, new each time; that a seed says everything; and that faults which were once there are found."""

import os
import random
import re
import subprocess
import sys

import pytest

# On a machine that others use too each seed may take many seconds.
pytestmark = pytest.mark.timeout(900)

FIRST = {"own-clock": 1, "unknown-commit": 11}
"""From which seed on each planted fault is looked for."""


def simulated(*options: object) -> subprocess.CompletedProcess[str]:
    """Run simulations in a process of their own, whose sets have the same order every time."""
    command = [sys.executable, "-m", "tests.simulation", *map(str, options)]
    env = {**os.environ, "PYTHONHASHSEED": "0"}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=env)


def test_simulations_of_new_seeds_find_nothing_g1_g2_g3_g4_g5_g6_g7_g11() -> None:
    first = random.SystemRandom().randrange(10**9)

    done = simulated("--first", first, "--seeds", 4)

    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 seeds, 0 failed" in done.stdout


@pytest.mark.crossed
def test_the_same_seed_gives_the_same_history_byte_for_byte() -> None:
    once, again = (simulated("--seed", 7, "--history").stdout for _ in range(2))

    assert len(once.splitlines()) > 300
    assert once == again


@pytest.mark.soak  # `nox -s simulation` runs both too
@pytest.mark.parametrize("planted", ["own-clock", "unknown-commit"])
def test_a_fault_that_is_put_back_is_found_within_a_hundred_seeds(planted: str) -> None:
    done = simulated("--first", FIRST[planted], "--seeds", 100, "--planted", planted)

    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(rf"{planted} was found, by seed \d+ of those", done.stdout)
