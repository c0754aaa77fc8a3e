"""Checks that hang, break, and lead to others."""

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Sequence

import pytest

from treadle.doctor.examination import examine
from treadle.errors import Unauthorized, problem_named
from treadle.wire.findings import Check, Finding, Seen


def fine(name: str) -> Check:
    return Check(name, lambda: [Finding(name, "ok", "seen")])


def examined(checks: Sequence[Check], limit: float = 30.0) -> list[Finding]:
    return asyncio.run(examine(checks, limit))


def test_what_hangs_is_found_to_hang_and_holds_nothing_up_f8() -> None:
    ended = threading.Event()

    def hangs() -> Seen:
        ended.wait()
        return []

    async def hangs_too() -> Seen:
        await asyncio.Event().wait()
        return []

    found = examined([Check("thread", hangs), Check("loop", hangs_too), fine("other")], limit=0.2)
    ended.set()

    assert [(one.check, one.grade) for one in found] == [("thread", "warn"), ("loop", "warn"), ("other", "ok")]
    assert "did not finish within 0.2 s" in found[0].detail
    assert "--timeout" in found[0].advice


def test_a_process_ends_though_a_look_never_does_f8() -> None:
    code = (
        "import asyncio, threading;"
        " from treadle.doctor.examination import examine; from treadle.wire.findings import Check;"
        " print(len(asyncio.run(examine([Check('stuck', threading.Event().wait)], 0.1))))"
    )

    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)

    assert (ended.returncode, ended.stdout) == (0, "1\n"), ended.stderr


def test_what_breaks_is_a_finding_and_the_others_are_made() -> None:
    def breaks() -> Seen:
        raise PermissionError(13, "Permission denied", "/secret")

    found = examined([Check("broken", breaks), fine("other")])

    assert [one.grade for one in found] == ["fail", "ok"]
    assert "PermissionError: [Errno 13] Permission denied: '/secret'" in found[0].detail


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (Unauthorized(problem_named("unauthorized", "the token has expired")), "(Unauthorized: the token has expired)"),
        (OSError("no such disk"), "(OSError: no such disk)"),
        (ValueError(), "(ValueError)"),
    ],
)
def test_what_broke_is_told_with_its_kind_once(error: Exception, told: str) -> None:
    def breaks() -> Seen:
        raise error

    [finding] = examined([Check("broken", breaks)])

    assert finding.detail == f"this could not be checked {told}"
    # A defect is; that a token has expired is not.
    assert ("report a bug" in finding.advice) == (not isinstance(error, Unauthorized))


def test_checks_are_made_side_by_side() -> None:
    meeting = threading.Barrier(3)

    def meets() -> Seen:
        meeting.wait(30)
        return [Finding("met", "ok", "all three")]

    assert [one.grade for one in examined([Check("met", meets)] * 3)] == ["ok"] * 3


def test_what_a_check_leads_to_is_made_after_it_each_with_its_own_time() -> None:
    begun: list[float] = []

    async def first() -> Seen:
        begun.append(time.monotonic())
        return [Finding("first", "ok", "there"), Check("second", second), fine("third")]

    async def second() -> Seen:
        begun.append(time.monotonic())
        return [Finding("second", "warn", "there")]

    found = examined([Check("first", first), fine("last")])

    assert [one.check for one in found] == ["first", "second", "third", "last"]
    assert begun == sorted(begun)
