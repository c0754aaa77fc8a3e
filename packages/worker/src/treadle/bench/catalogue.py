"""Every case there is, in the order in which they are shown."""

from collections.abc import Sequence

from treadle.bench.curves import CURVES
from treadle.bench.drains import DRAINS
from treadle.bench.figures import Case
from treadle.bench.lasting import LASTING
from treadle.bench.limits import LIMITS
from treadle.bench.observed import OBSERVED
from treadle.bench.plain_http import PLAIN_HTTP
from treadle.bench.reads import READING
from treadle.bench.several import SEVERAL
from treadle.bench.starts import STARTS
from treadle.bench.submits import SUBMITS

BARRED = (*LIMITS, *DRAINS, *SUBMITS, *READING, *OBSERVED, *PLAIN_HTTP, *SEVERAL, *LASTING, *STARTS)
"""The cases that a bar is reckoned from: what runs when none is named."""

GROUPS = {"bars": BARRED, "curves": CURVES}

CASES = {case.name: case for case in (*BARRED, *CURVES)}


def chosen(names: Sequence[str]) -> list[Case]:
    """Return the cases of these names, of cases and groups. Raises `KeyError` with a name that there is not."""
    found: dict[str, Case] = {}
    for name in names or ("bars",):
        for case in GROUPS[name] if name in GROUPS else (CASES[name],):
            found[case.name] = case
    return list(found.values())
