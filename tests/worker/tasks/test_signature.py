"""Arguments of every kind: what is described, written as JSON and read again, and what is refused for it can't be."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum, IntEnum, IntFlag, StrEnum
from itertools import count
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import jsonschema_rs
import pytest
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    Json,
    Secret,
    SecretBytes,
    SecretStr,
    computed_field,
)
from typing_extensions import TypeAliasType, TypedDict

from treadle import Context, Flow, Options, errors, task


class Right(IntFlag):
    READ = 1
    WRITE = 2


class Rank(IntEnum):
    LOW = 1
    HIGH = 2


class Name(StrEnum):
    ANN = "ann"


class Forbidding(BaseModel):
    model_config = ConfigDict(extra="forbid")
    n: int

    @computed_field
    def twice(self) -> int:
        return 2 * self.n


class Stamped(BaseModel):
    number: int = Field(default_factory=count().__next__)


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"


Pet = Annotated[Cat | Dog, Field(discriminator="kind")]


@pytest.mark.parametrize(
    ("annotation", "given", "written", "read"),
    [
        (Stamped, Stamped(), {"number": 0}, Stamped(number=0)),
        (list[Pet], [Dog()], [{"kind": "dog"}], [Dog()]),
        (Right, Right.READ | Right.WRITE, 3, Right.READ | Right.WRITE),
        (Forbidding, Forbidding(n=1), {"n": 1}, Forbidding(n=1)),
        (Json[list[int]], "[1, 2]", "[1,2]", [1, 2]),
        (Annotated[int, {"unit": "m"}], 1, 1, 1),
        (list[Annotated[int, ["in metres"]]], [1], [1], [1]),
        (dict[Rank, str], {Rank.LOW: "a"}, {"1": "a"}, {Rank.LOW: "a"}),
        (dict[Name, str], {Name.ANN: "a"}, {"ann": "a"}, {Name.ANN: "a"}),
    ],
    ids=[
        "a default that is made anew",
        "a default that tells the class",
        "flags together",
        "a model with a computed field",
        "JSON in a text",
        "a type with a dict beside it",
        "in a list, with a list beside it",
        "keys that are numbers with names",
        "keys that are texts with names",
    ],
)
def test_what_is_written_fits_the_schema_and_is_read_again(
    annotation: Any, given: Any, written: Any, read: Any
) -> None:
    """T2."""

    @task
    def takes(value: annotation) -> annotation: ...

    payload = takes.bind(given).payload

    assert payload == {"value": written}
    jsonschema_rs.validator_for(takes.signature.schema).validate(payload)
    assert takes.signature.arguments(payload) == {"value": read}
    assert takes.signature.returns.read(written) == read


@dataclass
class Counted:
    n: int
    total: int = field(init=False, default=0)


class Corner(Enum):
    LEFT = (0, 0)
    RIGHT = (1, 0)


class Renamed(BaseModel):
    n: int = Field(validation_alias="read", serialization_alias="written")


@pytest.mark.parametrize(
    ("annotation", "given", "message"),
    [
        (Counted, Counted(1), "value.total: Unexpected keyword argument"),
        (list[Corner], [Corner.LEFT], r"value.0: Input should be \(0, 0\) or \(1, 0\), not \[0, 0\]"),
        (Literal["all", Corner.LEFT], Corner.LEFT, "value: Input should be"),
        (dict[tuple[int, int], str], {(1, 2): "a"}, "value.1,2.*valid array, not '1,2'"),
        (Annotated[Renamed | None, "of use"], Renamed.model_validate({"read": 1}), "value.read: Field required"),
    ],
    ids=[
        "a field that init does not take",
        "an enum of tuples",
        "one in a Literal",
        "keys that are tuples",
        "two aliases",
    ],
)
def test_what_no_worker_could_read_is_refused_at_submit(annotation: Any, given: Any, message: str) -> None:
    """T2."""

    @task
    def takes(value: annotation) -> None: ...

    with pytest.raises(errors.InvalidArguments, match=f"it would not survive a round trip through JSON: {message}"):
        takes.bind(given)


@pytest.mark.parametrize("annotation", [Any, dict, dict[int, str], dict[int | str, str], dict[Any, Any]])
def test_two_keys_that_are_one_text_in_json_are_refused_at_submit(annotation: Any) -> None:
    """One of the two was left out, by the type that makes a number of both, or by JSON, that makes a text."""

    @task
    def takes(value: annotation) -> None: ...

    with pytest.raises(errors.InvalidArguments, match="value: the keys 1 and '1' are the same in JSON: leave one out"):
        takes.bind({1: "a", "1": "b"})


class HoldsInModel(BaseModel):
    data: str | bytes


@dataclass
class HoldsInDataclass:
    data: str | bytes


class HoldsInRow(NamedTuple):
    data: str | bytes


class HoldsInDict(TypedDict):
    data: str | bytes


Either = TypeAliasType("Either", str | bytes)

HOLDERS: list[Any] = [HoldsInModel, HoldsInDataclass, HoldsInRow, HoldsInDict]


@pytest.mark.parametrize(
    ("annotation", "given"),
    [
        (str | bytes, b"hi"),
        (bytes | str, "test"),
        (list[str | bytes], ["a", b"b"]),
        (dict[str, Forbidding | str | bytes | None], {"a": b"x"}),
        (list[bytes] | list[str], ["test"]),
        *[(kind, kind(data=b"hi")) for kind in HOLDERS],
        (dict[str, list[HoldsInRow]], {"a": [HoldsInRow(b"hi")]}),
        (Either, b"hi"),
    ],
)
def test_bytes_that_would_be_read_again_as_a_text_or_a_text_as_bytes_are_refused(annotation: Any, given: Any) -> None:
    """They came to the code as what they were written as: in base64, or decoded from it."""

    @task
    def takes(value: annotation) -> None: ...

    with pytest.raises(
        errors.InvalidArguments, match="value takes both bytes and str, which JSON can't tell apart, and "
    ):
        takes.bind(given)


@pytest.mark.parametrize(
    ("annotation", "given"),
    [
        (str | bytes, "test"),
        (bytes | str, b"hi"),
        (bytes | str, "a text"),
        (list[bytes] | list[str], ["no base64"]),
        *[(kind, kind(data="test")) for kind in HOLDERS],
    ],
)
def test_bytes_and_texts_that_are_read_again_are_taken(annotation: Any, given: Any) -> None:
    @task
    def takes(value: annotation) -> None: ...

    assert takes.signature.arguments(takes.bind(given).payload) == {"value": given}


class Account(BaseModel):
    user: str
    password: SecretStr


@pytest.mark.parametrize(
    ("annotation", "given"),
    [
        (SecretStr, "hush"),
        (SecretBytes, b"hush"),
        (Secret[str], "hush"),
        (list[Account], [Account(user="ann", password=SecretStr("hush"))]),
    ],
)
def test_a_secret_is_refused_and_not_sent_as_asterisks(annotation: Any, given: Any) -> None:
    @task
    def takes(value: annotation) -> None: ...

    with pytest.raises(
        errors.InvalidArguments, match="value contains a secret, which would be written as asterisks"
    ) as refused:
        takes.bind(given)

    assert "hush" not in str(refused.value)


def test_asterisks_that_are_no_secrets_are_arguments_as_any_other() -> None:
    @task
    def takes(text: str, account: Account | None = None, more: SecretStr | None = None) -> None: ...

    assert takes.bind("**********").payload == {"text": "**********"}
    assert takes.bind("**********", more=SecretStr("")).payload == {"text": "**********", "more": ""}


def test_a_context_that_is_not_given_by_position_is_refused() -> None:
    """It is given so, and each run failed with a `TypeError`."""

    def named(*, ctx: Context, n: int) -> int:
        return n

    def many(*ctx: Context) -> None: ...

    for function in (named, many):
        with pytest.raises(errors.DefinitionError, match=r"takes its Context as the keyword-only ctx"):
            task(function)


def test_a_class_variable_is_no_argument() -> None:
    def odd(n: Any) -> None: ...

    odd.__annotations__["n"] = ClassVar[int]

    with pytest.raises(errors.DefinitionError, match="n is a ClassVar, which an argument can't be"):
        task(odd).bind(1)


@pytest.mark.parametrize("annotation", [Iterable[int], Iterable[int] | None, Annotated[Iterable[int], "of use"]])
def test_what_is_iterable_is_a_list(annotation: Any) -> None:
    """It came as an iterator, of which the second pass over it had nothing, and what was wrong in it had no name."""

    @task
    def add(numbers: annotation) -> annotation: ...

    payload = add.bind(n for n in (1, 2)).payload

    assert add.signature.arguments(payload) == {"numbers": [1, 2]}
    assert add.signature.returns.read([1, 2]) == [1, 2]
    with pytest.raises(errors.InvalidArguments, match=r"called like this: numbers.0: Input should be a valid integer"):
        add.bind(["x"])


def test_a_text_for_bytes_is_what_it_says() -> None:
    """It was taken for base64: `abcd` came as three other bytes, and `hello` was refused for its length."""

    @task
    def takes(data: bytes, more: list[bytes] | None = None) -> None: ...

    payload = takes.bind("abcd", more=["hello"]).payload  # type: ignore[arg-type, list-item]

    assert takes.signature.arguments(payload) == {"data": b"abcd", "more": [b"hello"]}


def test_the_first_task_of_a_flow_is_given_its_arguments_as_every_other() -> None:
    """What a task takes was known once it had been bound: until then a text for bytes was read as base64, for one."""

    @task
    def one() -> int:
        return 1

    @task
    def two(data: bytes, said: dict[Any, int], other: int) -> int:
        return len(data) + other

    flow = Flow()
    node = flow.add(one)

    with pytest.raises(errors.InvalidArguments, match="said: the keys 1 and '1' are the same in JSON"):
        flow.add(two, "hello", {1: 1, "1": 2}, node)


def test_an_option_that_is_given_as_an_argument_is_told_where_it_goes() -> None:
    @task
    def add(n: int) -> int:
        return n

    for given, options in (({"delay": 5}, "delay=…"), ({"n": 1, "timeout": 2, "pool": "a"}, "timeout=…, pool=…")):
        with pytest.raises(
            errors.InvalidArguments, match=rf"options go with the task: .*add\.with_options\(Options\({options}"
        ):
            add.bind(**given)  # type: ignore[call-overload]
    with pytest.raises(errors.InvalidArguments, match=r"no argument options, .*add\.with_options\(Options\(…\)\)$"):
        Flow().add(add, n=1, options=Options(delay=5))  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("said", "default"),
    [
        (Field(5, alias="other", gt=2), 5),
        (Field(5, validation_alias="other", gt=2), 5),
        (Field(5, serialization_alias="other", gt=2), 5),
        (Field(5, exclude=True, gt=2), 5),
        (Field(default_factory=lambda: 7, alias="other", gt=2), 7),
        (Field(alias="other", exclude=True, gt=2), None),
    ],
)
@pytest.mark.parametrize("stands_as_default", [True, False])
def test_an_argument_is_called_as_its_parameter_is_and_sent_whatever_its_field_says(
    said: Any, default: int | None, *, stands_as_default: bool
) -> None:
    """With an alias in a default no call of it was taken, and what is excluded was not sent: the default was used."""
    if stands_as_default:

        @task(name="count")
        def taken(n: int = said) -> None: ...
    else:

        @task(name="count")
        def taken(n: Annotated[int, said]) -> None: ...

    assert taken.bind(3).payload == taken.bind(n=3).payload == {"n": 3}
    assert taken.signature.arguments({"n": 3}) == {"n": 3}
    assert taken.signature.schema["properties"].keys() == {"n"}
    with pytest.raises(errors.InvalidArguments, match=r"n: Input should be greater than 2, not 2$"):
        taken.bind(2)
    with pytest.raises(errors.InvalidArguments, match="other: there is no such argument"):
        taken.bind(other=3)  # type: ignore[call-overload]
    if stands_as_default and default is not None:
        assert taken.signature.arguments(taken.bind().payload) == {"n": default}
    elif default is None:
        with pytest.raises(errors.InvalidArguments, match="n: Field required"):
            taken.bind()
