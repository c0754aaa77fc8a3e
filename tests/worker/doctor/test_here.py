"""What is wrong on this side of the wire."""

import asyncio
import time
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

from treadle.doctor import here
from treadle.wire.findings import Check, Finding, Seen


def only(seen: Seen) -> Finding:
    [finding] = seen
    assert isinstance(finding, Finding)
    return finding


@pytest.fixture
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TREADLE_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("TREADLE_URL", "http://127.0.0.1:7420")
    monkeypatch.delenv("TREADLE_TOKEN", raising=False)
    return tmp_path


def test_without_a_token_it_says_which_is_missing(data_dir: Path) -> None:
    finding = only(here.settings())

    assert (finding.grade, finding.advice) == ("warn", "set TREADLE_TOKEN")
    assert str(data_dir / "token") in finding.detail


def test_a_token_that_others_can_read_is_found_n4(data_dir: Path) -> None:
    (data_dir / "token").write_text("secret")
    (data_dir / "token").chmod(0o644)
    assert only(here.settings()).advice == f"chmod 600 {data_dir / 'token'}"
    (data_dir / "token").chmod(0o600)

    assert only(here.settings()).grade == "ok"


def test_an_address_to_which_the_local_token_is_not_shown_is_found_n4(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (data_dir / "token").touch(mode=0o600)
    (data_dir / "token").write_text("secret")
    monkeypatch.setenv("TREADLE_URL", "http://192.0.2.1:7420")

    finding = only(here.settings())

    assert finding.grade == "warn"
    assert "192.0.2.1" in finding.detail


def test_settings_that_are_none_are_named(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TREADLE_URL", "nowhere")

    finding = only(here.settings())

    assert (finding.grade, "'nowhere' is not a server's address" in finding.detail) == ("fail", True)


def test_the_token_of_the_environment_is_never_told(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TREADLE_TOKEN", "secret")

    finding = only(here.settings())

    assert finding.grade == "ok"
    assert "secret" not in finding.detail


@pytest.mark.parametrize(("server", "grade"), [("0.1.0", "ok"), ("0.2.0", "warn"), (None, "ok")])
def test_distributions_of_several_versions_are_found(
    server: str | None, grade: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = {"treadle": "0.1.0", "treadle-tui": "0.1.0"} | ({"treadle-server": server} if server else {})

    def version(name: str) -> str:
        if name not in there:
            raise here.PackageNotFoundError(name)
        return there[name]

    monkeypatch.setattr(here, "version", version)

    finding = only(here.installed())

    assert finding.grade == grade
    assert f"treadle-server {server}" in finding.detail or server is None


@pytest.mark.parametrize(("step", "grade"), [(0.0, "ok"), (0.01, "ok"), (-30.0, "warn"), (3600.0, "warn")])
def test_a_clock_that_is_set_meanwhile_is_found(step: float, grade: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real, looks = time.time, []

    def set_after_the_first_look() -> float:
        looks.append(True)
        return real() + (step if len(looks) > 1 else 0.0)

    monkeypatch.setattr(here, "WATCHED", 0.0)
    monkeypatch.setattr(time, "time", set_after_the_first_look)

    assert only(asyncio.run(here.steps())).grade == grade


def test_without_the_server_it_says_where_the_rest_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(here, "entry_points", lambda **_: EntryPoints())

    [check] = here.added()

    assert "treadle-server is not installed here" in only(check.look()).detail  # type: ignore[arg-type]


def mine() -> list[Check]:
    return [Check("mine", list)]


def test_a_distribution_adds_checks_by_its_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = EntryPoint("mine", f"{__name__}:mine", here.ENTRY_POINTS)
    monkeypatch.setattr(here, "entry_points", lambda **_: EntryPoints([entry]))
    monkeypatch.setattr(EntryPoint, "load", lambda _: mine)

    assert [check.name for check in here.added()] == ["mine"]
