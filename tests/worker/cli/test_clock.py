"""The ages that commands tell on a machine whose clock is wrong."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from tests.worker.cli.conftest import Command, Shop
from treadle.cli import clock

NOW = datetime(2026, 11, 28, 9, 30, 12, 900_000, tzinfo=UTC)


@pytest.fixture(params=[-3600, 3600], ids=["behind", "ahead"])
def off(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Set this machine's clock wrong, by so many seconds."""
    seconds: int = request.param
    monkeypatch.setattr(clock, "machine_time", lambda: datetime.now(UTC) + timedelta(seconds=seconds))
    return seconds


def test_ages_are_told_by_the_servers_time(off: int, command: Command, shop: Shop) -> None:
    task = shop.submit(delay=7000)

    [row] = [line for line in command.said("tasks").splitlines() if task in line]

    assert " in 2h " in row
    assert "s ago" in row


def test_a_token_ends_by_the_servers_time_and_is_valid_until_then(off: int, command: Command) -> None:
    name = f"off-by-{abs(off)}-{off > 0}"
    made = command.read("token", "create", name, "--expires", "30m")

    left = datetime.fromisoformat(made["expires_at"]) - datetime.now(UTC)
    assert timedelta(minutes=29) < left <= timedelta(minutes=30)
    [row] = [line for line in command.said("token", "list").splitlines() if f" {name} " in line]
    assert row.endswith("valid")
    assert " in 30m " in row


@pytest.mark.parametrize(
    ("ahead", "told"),
    [(0.0, 0.0), (-1.0, 0.0), (-3.5, 0.0), (1.0, 0.0), (60.0, 60.0), (-60.0, -60.0)],
    ids=["alike", "rounded", "written late by a busy server", "later", "behind", "ahead"],
)
def test_a_clock_is_corrected_when_it_differs_by_more_than_the_age_of_a_date(
    monkeypatch: pytest.MonkeyPatch, ahead: float, told: float
) -> None:
    monkeypatch.setattr(clock, "machine_time", lambda: NOW)
    known = clock.ServerTime()

    known.correct(format_datetime(NOW + timedelta(seconds=ahead), usegmt=True))

    assert (known.now() - NOW).total_seconds() == pytest.approx(told, abs=5)
    assert (known.now() == NOW) == (told == 0)


@pytest.mark.parametrize(
    "date",
    [
        *(None, "", "yesterday", "Sat, 99 Nov 2026 09:30:12 GMT", "Sat, 28 Nov 2026 10:30:12 -0000"),
        *("Fri, 31 Dec 9999 23:59:59 GMT", "Fri, 31 Dec 9999 23:59:59 -2359", "Sat, 28 Nov 99999999999999999999 9:30"),
        *("Sat, 28 Nov 2026 10:30:12 +99999999999999", f"Sat, 28 Nov 2026 {10**20}:30:12 GMT"),
    ],
)
def test_an_answer_without_a_date_that_can_be_read_corrects_nothing(
    monkeypatch: pytest.MonkeyPatch, date: str | None
) -> None:
    monkeypatch.setattr(clock, "machine_time", lambda: NOW)
    known = clock.ServerTime()

    known.correct(date)

    assert known.now() == NOW
