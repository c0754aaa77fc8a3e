"""The form of sealed values: what is one, and what of it can be compared."""

import pytest

from treadle.wire.sealed import (
    LIMIT_KEYS,
    class_of,
    identities,
    is_seal,
    seal_of,
    seal_of_text,
    sealed_text,
    sealed_value,
)

SEAL = "ZGlnZXN0,b2xkZXI.Y2lwaGVy-_8="


@pytest.mark.parametrize("seal", [SEAL, "Y2lwaGVy", "a.b", ",".join(["d"] * 8) + ".c"])
def test_a_seal_comes_back_from_a_value_and_from_a_text(seal: str) -> None:
    assert is_seal(seal)
    assert seal_of(sealed_value(seal)) == seal
    assert seal_of_text(sealed_text(seal)) == seal
    assert seal_of_text(sealed_text(seal, "billing.Declined")) == seal


@pytest.mark.parametrize(
    "value", ["", "two words", "a.b.c", "a,b", "ü", "a\n", ".a", ",".join(["d"] * 9) + ".c", "=", 7, None]
)
def test_what_may_be_plain_text_is_no_seal(value: object) -> None:
    assert not is_seal(value)
    assert seal_of({"treadle:encrypted": value}) is None


@pytest.mark.parametrize("value", [None, 7, "text", [SEAL], {}, {"n": 1}, {"treadle:encrypted": SEAL, "n": 1}])
def test_a_sealed_value_is_an_object_with_the_one_key(value: object) -> None:
    assert seal_of(value) is None


@pytest.mark.parametrize("keys", [{}, {"/customer": None}, {"/customer": "ZGlnZXN0", "/a/0": "b2xkZXI"}])
def test_beside_the_seal_of_a_payload_stand_the_digests_of_its_limits_keys(keys: dict[str, str | None]) -> None:
    assert seal_of({**sealed_value(SEAL), LIMIT_KEYS: keys}) == SEAL


@pytest.mark.parametrize(
    "keys", [None, [], "/customer", {"customer": "ZGlnZXN0"}, {"/customer": "acme & sons"}, {"/customer": 7}]
)
def test_what_could_be_a_key_in_plain_is_none_of_them(keys: object) -> None:
    assert seal_of({**sealed_value(SEAL), LIMIT_KEYS: keys}) is None
    assert seal_of({LIMIT_KEYS: {}, **sealed_value(SEAL)}) is None, "a sealed value begins with its seal"


TEXT = f"<treadle:encrypted:{SEAL}>"


@pytest.mark.parametrize(
    "text",
    [None, "", SEAL, f"secret {TEXT}", f"my secret: {TEXT}", f"{TEXT}\n", f"{TEXT} secret",
     "<treadle:encrypted:secret words>", f"{'x' * 256}: {TEXT}"],
)  # fmt: skip
def test_beside_a_sealed_text_nothing_stands_but_the_class_of_an_error(text: str | None) -> None:
    assert seal_of_text(text) is None


def test_the_class_of_an_error_is_told_apart() -> None:
    assert class_of(sealed_text(SEAL, "KeyError")) == "KeyError"
    assert class_of(sealed_text(SEAL)) is None


def test_two_seals_are_compared_by_their_digests_and_without_them_by_all_that_they_are() -> None:
    assert identities(SEAL) == ("ZGlnZXN0", "b2xkZXI")
    assert identities("Y2lwaGVy") == ("Y2lwaGVy",)
