"""What a surface is fuzzed with, and what must hold: a target has a strategy and a check, and its cases are JSON."""

import json
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

CORPUS = Path(__file__).parent / "corpus"
BATCH = 50
"""Examples between two looks at the time."""


@dataclass(frozen=True, slots=True)
class Target:
    """A surface: `check` raises for a case of which something does not hold. Cases can be written as JSON."""

    name: str
    cases: st.SearchStrategy[Any]
    check: Callable[[Any], None]

    def fuzz(self, seconds: float, seed_of_run: int) -> int:
        """Check new cases for so long; return how many. Raises what `check` does, of the smallest case that was found.

        The case is noted on the error as it stands in the corpus.
        """
        count, chance, until = 0, random.Random(f"{seed_of_run} {self.name}"), time.monotonic() + seconds
        while time.monotonic() < until or count == 0:
            count += self._batch(chance.getrandbits(64), until)
        return count

    def _batch(self, number: int, until: float) -> int:
        count, is_failing = 0, False

        @seed(number)
        @settings(
            max_examples=BATCH,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
            phases=(Phase.generate, Phase.shrink),
        )
        @given(case=self.cases)
        def checked(case: Any) -> None:
            nonlocal count, is_failing
            # What has failed is made smaller however late it is.
            if count and time.monotonic() > until and not is_failing:
                return
            count += 1
            try:
                self.check(case)
            except BaseException as error:
                is_failing = True
                error.add_note(f"corpus/{self.name}.json: {json.dumps(case)}")
                raise

        checked()
        return count


def found(name: str) -> Iterator[Any]:
    """Yield the cases that fuzzing has found of a target."""
    file = CORPUS / f"{name}.json"
    if file.exists():
        yield from json.loads(file.read_text())
