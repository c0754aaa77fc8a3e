"""Arguments that would be read again as something else than they are, and those of which that is meant."""

from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer

from treadle import errors, task


def grown(n: int) -> int:
    return n + 1


@dataclass
class Growing:
    n: int

    def __post_init__(self) -> None:
        self.n += 1


class Fallback(BaseModel):
    n: int = Field(0, serialization_alias="written")


class HalfEncoded(BaseModel):
    model_config = ConfigDict(ser_json_bytes="base64")
    data: bytes


@pytest.mark.parametrize(
    ("annotation", "given", "message"),
    [
        (Annotated[int, AfterValidator(grown)], 1, "3 as 4"),
        (list[Growing], [Growing(1)], r"\[Growing\(n=3\)\] as \[Growing\(n=4\)\]"),
        (Fallback, Fallback(n=1), r"Fallback\(n=1\) as Fallback\(n=0\)"),
        (HalfEncoded, HalfEncoded(data=b"hi"), r"HalfEncoded\(data=b'hi'\) as HalfEncoded\(data=b'aGk='\)"),
        (Annotated[int, PlainSerializer(grown)], 1, "1 as 2"),
    ],
    ids=["a validator that goes on", "a __post_init__ that does", "one alias", "base64 one way", "a serializer"],
)
def test_what_would_be_read_again_as_another_one_is_refused(annotation: Any, given: Any, message: str) -> None:
    """The code got that other one, without a word."""

    @task
    def takes(value: annotation) -> None: ...

    with pytest.raises(
        errors.InvalidArguments, match=f"value would be read back as a different value, {message}: let its"
    ):
        takes.bind(given)


class Trimmed(BaseModel):
    name: Annotated[str, AfterValidator(str.strip)]
    rate: Annotated[float, PlainSerializer(lambda rate: round(rate, 2))] = 0.123
    kinds: set[str] = set()
    cache: str | None = Field(None, exclude=True)


@dataclass
class Loose:
    name: Annotated[str, AfterValidator(str.strip)]


@pytest.mark.parametrize(
    ("annotation", "given", "read"),
    [
        (Annotated[str, AfterValidator(str.strip)], " a ", "a"),
        (Loose, Loose(" a "), Loose("a")),
        (
            Trimmed,
            Trimmed(name=" a ", kinds=set(map(str, range(100))), cache="b"),
            Trimmed(name="a", rate=0.12, kinds=set(map(str, range(100)))),
        ),
        (str | date, date(2026, 1, 1), "2026-01-01"),
        (date | str, "2026-01-01", date(2026, 1, 1)),
    ],
)
def test_what_its_type_means_to_leave_out_or_to_make_of_it_is_taken(annotation: Any, given: Any, read: Any) -> None:
    @task
    def takes(value: annotation) -> None: ...

    assert takes.signature.arguments(takes.bind(given).payload) == {"value": read}


def parts_of(text: str) -> list[str]:
    return text.split(",")


def test_what_a_validator_raises_is_told_as_what_it_refuses() -> None:
    """It was raised as it was, without the task's name."""

    @task
    def takes(value: Annotated[list[str], BeforeValidator(parts_of)]) -> None: ...

    with pytest.raises(
        errors.InvalidArguments, match="takes can't be called like this: AttributeError: 'int' object"
    ) as told:
        takes.bind(1)  # type: ignore[arg-type]
    with pytest.raises(
        errors.InvalidArguments,
        match="it would not survive a round trip through JSON: AttributeError: 'list' object has no attribute",
    ):
        takes.bind("a,b")  # type: ignore[arg-type]

    assert isinstance(told.value.__cause__, AttributeError)
