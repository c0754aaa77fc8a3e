"""What a database's URL means."""

from pathlib import Path

import pytest

from treadle_server.store.urls import parse_url


def test_the_path_of_a_file_may_begin_with_the_users_home_as_any_path_in_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A directory `~` was made wherever the server was started."""
    monkeypatch.setenv("HOME", str(tmp_path))

    assert parse_url("sqlite:///~/data/treadle.db").database == str(tmp_path / "data" / "treadle.db")


@pytest.mark.parametrize("place", [f"/{'x' * 80}", "/run/a..b", "@treadle"])
def test_the_directory_of_a_socket_is_no_hosts_name(place: str) -> None:
    assert parse_url(f"postgresql://me@/tasks?host={place}").query["host"] == place
