"""The keys of the environment, or of a file that it names."""

from pathlib import Path

import pytest

from treadle import Client, Settings, SyncClient
from treadle.encryption import new_key
from treadle.encryption.keys import codec_of
from treadle.settings import InvalidSetting


def test_without_a_setting_there_is_no_codec() -> None:
    assert codec_of(Settings()) is None


def test_keys_are_read_from_the_environment_the_first_one_first(monkeypatch: pytest.MonkeyPatch) -> None:
    new, old = new_key(), new_key()
    monkeypatch.setenv("TREADLE_ENCRYPTION_KEYS", f"{new}, {old}")

    found = codec_of(Settings())

    assert found is not None
    assert len(found.digests(b"a")) == 2
    monkeypatch.setenv("TREADLE_ENCRYPTION_KEYS", new)
    assert codec_of(Settings()).decode(found.encode(b"secret")) == b"secret"  # type: ignore[union-attr]


def test_keys_are_read_from_a_file_with_remarks_and_the_variable_goes_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new, old = new_key(), new_key()
    path = tmp_path / "keys"
    path.write_text(f"# of this year\n{new}\n\n{old}  # of the last\n")
    monkeypatch.setenv("TREADLE_ENCRYPTION_KEYS_FILE", str(path))

    of_file = Client().sealer
    monkeypatch.setenv("TREADLE_ENCRYPTION_KEYS", old)
    of_both = SyncClient().client.sealer

    assert len(of_file.codec.digests(b"a")) == 2  # type: ignore[union-attr]
    assert len(of_both.codec.digests(b"a")) == 1  # type: ignore[union-attr]
    assert of_file.open_value(of_both.value("secret")) == "secret"


@pytest.mark.parametrize("variable", ["TREADLE_ENCRYPTION_KEYS", "TREADLE_ENCRYPTION_KEYS_FILE"])
def test_what_is_wrong_names_the_variable_and_shows_no_key(
    variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "keys").write_text("hunter2")
    monkeypatch.setenv(variable, "hunter2" if variable.endswith("KEYS") else str(tmp_path / "keys"))

    with pytest.raises(InvalidSetting, match=f"{variable}: encryption key 1 of 1 is invalid") as refused:
        Client()

    assert "hunter2" not in str(refused.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TREADLE_ENCRYPTION_KEYS_FILE", str(tmp_path / "none"))

    with pytest.raises(InvalidSetting, match=r"TREADLE_ENCRYPTION_KEYS_FILE: .*none can't be read \(No such file"):
        Client()
