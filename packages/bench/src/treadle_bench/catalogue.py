"""Every case, in the order in which they are shown."""

from collections.abc import Sequence

from treadle_bench.case import Case
from treadle_bench.cases.curves import CURVES
from treadle_bench.cases.drains import DRAINS
from treadle_bench.cases.http import PLAIN_HTTP
from treadle_bench.cases.limits import LIMITS
from treadle_bench.cases.memory import MEMORY
from treadle_bench.cases.observers import OBSERVED
from treadle_bench.cases.reads import READING
from treadle_bench.cases.servers import SEVERAL
from treadle_bench.cases.soak import SOAK
from treadle_bench.cases.starts import STARTS
from treadle_bench.cases.submits import SUBMITS

BARRED = (LIMITS, *DRAINS, *SUBMITS, READING, OBSERVED, PLAIN_HTTP, *SEVERAL, MEMORY, SOAK, *STARTS)
"""The cases that bars are computed from, which run if none is named."""

GROUPS = {"bars": BARRED, "curves": CURVES}

CASES = {case.name: case for case in (*BARRED, *CURVES)}


def chosen(names: Sequence[str]) -> list[Case]:
    """Return the cases of these names of cases and groups. Raises `KeyError` with an unknown name."""
    found: dict[str, Case] = {}
    for name in names or ("bars",):
        for case in GROUPS[name] if name in GROUPS else (CASES[name],):
            found[case.name] = case
    return list(found.values())
