"""Fernet keys: the first encrypts, all decrypt, and what is no key is told without being shown."""

import sys

import pytest
from cryptography.fernet import InvalidToken

from treadle.encryption import FernetCodec, new_key
from treadle.settings import InvalidSetting


def test_the_first_key_encrypts_and_all_decrypt() -> None:
    old, new = new_key(), new_key()
    before, during, after = FernetCodec(old), FernetCodec([new, old]), FernetCodec([new])

    data = before.encode(b"secret")

    assert during.decode(data) == b"secret"
    assert after.decode(during.encode(b"secret")) == b"secret"
    with pytest.raises(InvalidToken):
        before.decode(during.encode(b"secret"))


def test_digests_are_keyed_and_come_in_the_order_of_the_keys() -> None:
    old, new = new_key(), new_key()

    assert FernetCodec([new, old]).digests(b"a") == [*FernetCodec(new).digests(b"a"), *FernetCodec(old).digests(b"a")]
    assert FernetCodec(new).digests(b"a") != FernetCodec(old).digests(b"a")
    assert len(FernetCodec([new_key() for _ in range(12)]).digests(b"a")) == 8


def test_keys_are_text_or_bytes() -> None:
    key = new_key()

    assert FernetCodec(key.encode()).decode(FernetCodec(key).encode(b"a")) == b"a"


@pytest.mark.parametrize("keys", ["secret", ["c2VjcmV0"], ["ü"], [7]])
def test_what_is_no_key_is_refused_and_not_shown(keys: object) -> None:
    with pytest.raises(InvalidSetting, match=r"encryption key 1 of 1 is invalid.*new_key") as refused:
        FernetCodec(keys)  # type: ignore[arg-type]

    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("between", [";", ":", "\n\0", "|"])
def test_two_keys_in_the_place_of_one_are_refused_where_the_second_would_be_lost(between: str) -> None:
    keys = f"{new_key()}{between}{new_key()}"

    for given in (keys, keys.encode()):
        with pytest.raises(InvalidSetting, match="encryption key 1 of 1 is invalid"):
            FernetCodec(given)


def test_a_key_may_have_the_line_end_of_its_file_and_either_alphabet_of_base64() -> None:
    key = new_key()
    sealed = FernetCodec(key).encode(b"a")

    for given in (f"{key}\n", f" {key}\r\n".encode(), key.replace("-", "+").replace("_", "/")):
        assert FernetCodec(given).decode(sealed) == b"a"


def test_no_key_at_all_is_refused() -> None:
    with pytest.raises(InvalidSetting, match="no encryption key"):
        FernetCodec([])


@pytest.mark.parametrize("keys", [5, None])
def test_what_holds_no_keys_is_refused(keys: object) -> None:
    """None is what `os.environ.get` gives of a variable that is not set."""
    with pytest.raises(InvalidSetting, match=f"str, bytes or a list of them, not {type(keys).__name__}"):
        FernetCodec(keys)  # type: ignore[arg-type]


def test_a_codec_shows_none_of_its_keys() -> None:
    key = new_key()

    assert key not in repr(FernetCodec(key))


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)

    with pytest.raises(InvalidSetting, match=r"pip install 'treadle\[encryption\]'"):
        new_key()
