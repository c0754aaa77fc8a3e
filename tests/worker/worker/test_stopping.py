"""What is logged of code that was told to stop."""

import asyncio
import logging

import pytest

from treadle.errors import StaleRun, problem_named
from treadle.tasks.outcomes import Interrupted
from treadle.worker.lease import Held
from treadle.worker.stopping import log_end

NOT_OURS = StaleRun(problem_named("stale-run", "no run of it is open"))


@pytest.mark.parametrize(
    ("error", "is_told"),
    [(asyncio.CancelledError(), False), (Interrupted("stop"), False), (NOT_OURS, False), (OSError("disk"), True)],
    ids=["cancelled", "interrupted", "refused", "anything else"],
)
def test_code_that_ends_by_what_stopped_it_is_not_complained_of(
    error: BaseException, is_told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """A step of a run that is no longer ours is refused: that ends the code, as it should."""
    held = Held({"id": "t", "run_id": 0}, 0.0)
    held.stop = "gone"

    with caplog.at_level(logging.INFO, "treadle.worker"):
        log_end(held, {"kind": "failed"}, error)

    assert [one.exc_info is not None for one in caplog.records] == [True] * is_told
