"""Results: written as JSON and read again as what the function returned, or refused."""

import enum
import re
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal, cast
from zoneinfo import ZoneInfo

import pytest
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    Json,
    PlainSerializer,
    PlainValidator,
    SecretStr,
    computed_field,
)

from tests.worker.conftest import Working
from tests.worker.oddities import mixes, mixes_in_process, mixes_in_step, mixes_in_thread
from treadle import Client, Context, Pause, SyncClient, Task
from treadle.errors import BadValue
from treadle.tasks.endings import raised
from treadle.tasks.returned import Returned


def test_the_order_of_a_union_is_that_of_the_function() -> None:
    """The first `str | Path` of the process, whosever it was, made a `Path | str` of any other function one too."""
    assert Returned(str | Path).read("a") == "a"

    assert Returned(Path | str).read("a") == Path("a")


@dataclass
class Held:
    data: str | bytes


@pytest.mark.parametrize(
    ("annotation", "value"),
    [(str | bytes, b"hi"), (bytes | str, "test"), (list[str | bytes], ["a", b"b"]), (Held, Held(b"hi"))],
)
def test_bytes_that_would_be_read_as_a_text_or_a_text_as_bytes_are_refused(annotation: Any, value: Any) -> None:
    with pytest.raises(
        BadValue, match=r"^result is annotated as bytes or str, .* would be read back as the other: return"
    ):
        Returned(annotation).write(value, "result")


class Account(BaseModel):
    user: str
    password: SecretStr


ANN = Account(user="ann", password=SecretStr("hush"))


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (SecretStr, SecretStr("hush")),
        (Account, ANN),
        (list[Account], [ANN]),
        (Any, ANN),
        (Any, SecretStr("hush")),
        (dict[str, Any], {"password": SecretStr("hush")}),
    ],
)
def test_a_secret_is_refused_and_not_kept_as_asterisks(annotation: Any, value: Any) -> None:
    # The oldest pydantic does not write one that stands alone, not even as asterisks.
    said = "contains a secret, which would be written as asterisks: give a str|: SecretStr, which is not JSON"
    with pytest.raises(BadValue, match=said) as told:
        Returned(annotation).write(value, "step 'login'")

    assert "hush" not in str(told.value)


def test_a_secret_is_no_checkpoint() -> None:
    paused = raised(Pause(checkpoint=ANN))

    assert (paused["reason"], paused["error"][:28]) == ("internal-error", "checkpoint contains a secret")
    with pytest.raises(BadValue, match="checkpoint contains a secret"):
        Context({"id": "x", "run_id": 0, "payload": {}}, cast("Any", None)).save({"ann": ANN})


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (str, "**********"),
        (Account, Account(user="**********", password=SecretStr(""))),
        (str | bytes, "test"),
        (bytes | str, b"hi"),
        (bytes | str, "a text"),
        (bytes | None, None),
        (bytes, b"\xff"),
        (Held, Held("test")),
    ],
)
def test_what_is_read_again_is_taken(annotation: Any, value: Any) -> None:
    returned = Returned(annotation)

    assert returned.read(returned.write(value, "result")) == value


class Square(BaseModel):
    side: int

    @computed_field
    def area(self) -> int:
        return self.side**2


class StrictSquare(Square):
    model_config = ConfigDict(extra="forbid")


class Listed(BaseModel):
    type: Json[list[int]]
    inner: "list[StrictSquare]" = []


@pytest.mark.parametrize(
    ("annotation", "value", "written"),
    [
        (Square, Square(side=2), {"side": 2, "area": 4}),
        (StrictSquare, StrictSquare(side=2), {"side": 2}),
        (list[StrictSquare | None], [StrictSquare(side=2)], [{"side": 2}]),
        (Listed, Listed(type="[1]", inner=[StrictSquare(side=2)]), {"type": "[1]", "inner": [{"side": 2}]}),  # type: ignore[arg-type]
        (Any, StrictSquare(side=2), {"side": 2, "area": 4}),
    ],
    ids=["what is computed", "where what is unknown is forbidden", "in a list", "JSON in a text", "anything"],
)
def test_a_model_is_written_so_that_it_is_read_again(annotation: Any, value: Any, written: Any) -> None:
    """One that forbids what it computes, or has JSON in it, came back as a dict."""
    returned = Returned(annotation)

    assert returned.write(value, "result") == written
    assert returned.read(written) == (written if annotation is Any else value)


class Colour:
    """What pydantic reads and writes by functions of the user's alone."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Colour) and other.name == self.name

    __hash__ = None  # type: ignore[assignment]


def colour(given: object) -> Colour:
    return given if isinstance(given, Colour) else Colour(str(given))


Painted = Annotated[Colour, PlainValidator(colour), PlainSerializer(lambda one: one.name)]


@dataclass
class Renamed:
    n: Annotated[int, Field(alias="number")] = 0


@pytest.mark.parametrize(
    ("annotation", "value", "written"),
    [
        (list[Painted], [Colour("red")], ["red"]),
        (ZoneInfo, ZoneInfo("Europe/Berlin"), "Europe/Berlin"),
        (PurePosixPath | None, PurePosixPath("a"), "a"),
        (Renamed, Renamed(3), {"number": 3}),
    ],
    ids=["a class with its own functions", "a zone", "a path", "an alias in a dataclass"],
)
def test_what_only_its_type_can_write_is_written_by_it(annotation: Any, value: Any, written: Any) -> None:
    """An argument of such a type was taken, and a result was refused, or came back as another one."""
    returned = Returned(annotation)

    assert returned.write(value, "result") == written
    assert returned.read(written) == value


class Fallback(BaseModel):
    n: int = Field(0, serialization_alias="written")


def test_a_result_that_would_be_read_again_as_another_one_is_refused() -> None:
    said = r"^result would be read back as a different value, Fallback\(n=1\) as Fallback\(n=0\): let its"
    with pytest.raises(BadValue, match=said):
        Returned(Fallback).write(Fallback(n=1), "result")

    assert Returned().write(Fallback(n=1), "result") == {"written": 1}
    assert Returned(Fallback).write(Fallback(), "result") == {"written": 0}


class Renames(BaseModel):
    n: int = Field(serialization_alias="written")


def test_a_result_that_would_be_read_as_none_of_its_type_is_refused_as_well() -> None:
    """It was kept, and who waited for it, or the step's caller, had a dict in the place of the model."""
    said = r"^result would be read back as a different value, \[Renames\(n=1\)\] as \[\{'written': 1\}\]: let its"
    with pytest.raises(BadValue, match=said):
        Returned(list[Renames]).write([Renames(n=1)], "result")

    assert Returned(Renames).write({"written": 1}, "result") == {"written": 1}
    assert Returned().write(Renames(n=1), "result") == {"written": 1}


class Planet(enum.Enum):
    EARTH = (5.97e24, 6.37e6)


class Level(enum.Enum):
    LOW = 1


class Size(enum.IntEnum):
    LOW = 1


class Named(enum.StrEnum):
    LOW = "low"


class Table(BaseModel):
    cells: dict[tuple[int, int], str]


class Chosen(BaseModel):
    level: Literal[Level.LOW] = Level.LOW


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (Planet, Planet.EARTH),
        (list[Planet], [Planet.EARTH]),
        (dict[Level, int], {Level.LOW: 1}),
        (Table, Table(cells={(1, 2): "x"})),
        (Chosen, Chosen()),
        (Literal[Level.LOW] | None, Level.LOW),
        (Literal[b"a"], b"a"),
    ],
)
def test_an_enum_or_a_key_that_is_not_read_from_what_is_written_is_refused_as_well(annotation: Any, value: Any) -> None:
    """Who waited for the result had a list in the place of the enum's member, and a dict in that of the model."""
    with pytest.raises(
        BadValue, match=r"^result would be read back as a different value, .* texts or numbers as an enum's"
    ):
        Returned(annotation).write(value, "result")


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (Level, Level.LOW),
        (Literal[Named.LOW, Size.LOW, "a", True], Size.LOW),
        (Literal[Named.LOW, Size.LOW, "a", True], Named.LOW),
        (dict[Decimal, int], {Decimal("1.0"): 1}),
        (dict[Path, int], {Path("a"): 1}),
        (dict[int | str, int], {"a": 1}),
    ],
)
def test_an_enum_or_a_key_that_is_read_from_what_is_written_is_taken(annotation: Any, value: Any) -> None:
    returned = Returned(annotation)

    assert returned.read(returned.write(value, "result")) == value


@pytest.mark.parametrize("annotation", [Any, dict, dict[int | str, int], dict[Any, int]])
def test_a_result_with_two_keys_that_are_one_text_in_json_is_refused(annotation: Any) -> None:
    """One of the two was kept, and of the other nothing was said."""
    said = r"^result: the keys 1 and '1' are the same in JSON: leave one out$"
    with pytest.raises(BadValue, match=said):
        Returned(annotation).write({1: 2, "1": 3, "2": 4}, "result")


class Node(BaseModel):
    parent: Any = Field(default=None, exclude=True)
    children: list["Node"] = []


def test_a_model_that_names_the_one_that_it_is_part_of_is_looked_through_once() -> None:
    root = Node()
    root.children = [Node(parent=root) for _ in range(50)]

    assert Returned().write(root, "result") == {"children": [{"children": []}] * 50}


def test_what_no_type_can_write_is_told_as_ever() -> None:
    for annotation in (list[Painted], int, Any):
        with pytest.raises(BadValue, match=r"^result\[0\]: range, which is not JSON"):
            Returned(annotation).write([range(3)], "result")


class Picture(BaseModel):
    data: bytes


def test_bytes_of_a_model_that_writes_them_as_a_text_are_told_what_to_write() -> None:
    with pytest.raises(BadValue, match=r"^result\[0\]: bytes that are not UTF-8 in Picture, .*ser_json_bytes='base64'"):
        Returned().write([Picture(data=b"\xff")], "result")


@pytest.mark.anyio
@pytest.mark.parametrize(
    "job", [mixes, mixes_in_thread, mixes_in_process, mixes_in_step], ids=lambda job: str(job.job.name)
)
async def test_wherever_the_code_runs_bytes_that_would_come_back_as_base64_fail_its_run(
    client: Client, working: Working, job: Task[..., Any]
) -> None:
    async with working(job):
        text = await (await client.submit(job.bind(b"hi", as_text=True))).result(timeout=60)
        refused = await (await client.submit(job.bind(b"hi", as_text=False))).wait(timeout=60)

    assert text == "hi"
    assert (refused.status, refused.reason) == ("failed", "internal-error")
    assert re.match("(step 'result'|result) is annotated as bytes or str", refused.error or "")


def test_so_it_is_in_a_test_of_ones_own(treadle_client: SyncClient, treadle_worker: Any) -> None:
    treadle_client.submit(mixes_in_thread.bind(b"hi", as_text=False))

    (ended,) = treadle_worker(mixes_in_thread).run_all()

    assert (ended.status, ended.reason) == ("failed", "internal-error")
