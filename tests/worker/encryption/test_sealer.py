"""Values and texts are sealed and opened by a codec, whichever it is."""

import zlib
from collections.abc import Sequence
from typing import Any

import pytest

from treadle.encryption import Codec, FernetCodec, Sealer, new_key
from treadle.errors import CantDecrypt, NoCodec
from treadle.settings import InvalidSetting
from treadle.wire.sealed import UNOPENED, UNSEALED, class_of, identities, seal_of, seal_of_text


class Squeezed:
    """A codec of one's own: compresses before it encrypts."""

    def __init__(self, inner: Codec) -> None:
        self._inner = inner

    def encode(self, data: bytes) -> bytes:
        return self._inner.encode(zlib.compress(data))

    def decode(self, data: bytes) -> bytes:
        return zlib.decompress(self._inner.decode(data))

    def digests(self, data: bytes) -> Sequence[bytes]:
        return self._inner.digests(data)


@pytest.fixture(params=[FernetCodec, lambda key: Squeezed(FernetCodec(key))], ids=["fernet", "own"])
def sealer(request: pytest.FixtureRequest) -> Sealer:
    return Sealer(request.param(new_key()))


@pytest.mark.parametrize(
    "value", [None, 0, 1.5, 10**300, "ü\n", [], {"a": {"b": [None, True]}}, {"treadle:encrypted": "x"}]
)
def test_a_value_comes_back_as_it_was(sealer: Sealer, value: Any) -> None:
    assert sealer.open_value(sealer.value(value)) == value
    assert sealer.open_value(sealer.value(value, "of")) == value


def test_a_text_comes_back_as_it_was_and_the_class_before_it_is_no_part_of_it(sealer: Sealer) -> None:
    sealed = sealer.text("KeyError: 'ü'", error_class="KeyError")

    assert class_of(sealed) == "KeyError"
    assert sealer.open_text(sealed) == "KeyError: 'ü'"


def test_what_is_not_sealed_is_left_alone(sealer: Sealer) -> None:
    assert sealer.open_value({"n": 1}) == {"n": 1}
    assert sealer.open_text("Worker disconnected") == "Worker disconnected"
    assert [sealer.text(text) for text in ("", UNOPENED, UNSEALED)] == ["", UNOPENED, UNSEALED]


def test_digests_are_equal_for_equal_values_of_one_thing_and_of_no_other(sealer: Sealer) -> None:
    def digests(value: Any, of: str) -> tuple[str, ...]:
        seal = seal_of(sealer.value(value, of))
        assert seal is not None
        return identities(seal)

    assert digests({"a": 1, "b": 2}, "one") == digests({"b": 2, "a": 1}, "one")
    assert digests({"a": 1}, "one") != digests({"a": 1}, "other")
    assert digests({"a": 1}, "one") != digests({"a": 2}, "one")


def test_two_seals_of_one_value_have_no_ciphertext_in_common(sealer: Sealer) -> None:
    assert sealer.value("secret") != sealer.value("secret")


def test_a_long_text_loses_its_middle_until_its_ciphertext_fits() -> None:
    sealer = Sealer(FernetCodec(new_key()))

    sealed = sealer.text(f"begin{'ü' * 10_000}end", most=8000)
    opened = sealer.open_text(sealed)

    assert len(sealed) <= 8000
    assert len(opened) > 2000
    assert (opened[:5], opened[-3:]) == ("begin", "end")


def test_a_value_that_was_changed_is_refused_and_says_no_more(sealer: Sealer) -> None:
    seal = seal_of(sealer.value("secret"))
    assert seal is not None
    changed = seal[:40] + ("A" if seal[40] != "A" else "B") + seal[41:]

    with pytest.raises(CantDecrypt, match="none of the keys here fits, or the data was changed"):
        sealer.open_value({"treadle:encrypted": changed})


def test_without_a_codec_nothing_is_sealed_or_opened_and_the_error_says_what_to_set() -> None:
    nobody, sealer = Sealer(None), Sealer(FernetCodec(new_key()))

    for doing in (lambda: nobody.value(1), lambda: nobody.text("a"), lambda: nobody.open_value(sealer.value(1))):
        with pytest.raises(NoCodec, match="TREADLE_ENCRYPTION_KEYS"):
            doing()


@pytest.mark.parametrize("given", ["a key", b"a key", object()])
def test_what_is_no_codec_is_refused_and_not_shown(given: Any) -> None:
    with pytest.raises(InvalidSetting, match=r"FernetCodec\(keys\)") as refused:
        Sealer(given)

    assert "a key" not in str(refused.value)


def test_a_codecs_own_bad_digests_stay_within_the_form() -> None:
    class Many(Squeezed):
        def digests(self, data: bytes) -> Sequence[bytes]:
            return [bytes([n]) * 100 for n in range(20)]

    sealed = Sealer(Many(FernetCodec(new_key()))).text("a", "of")

    assert seal_of_text(sealed) is not None
