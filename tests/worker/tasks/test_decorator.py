"""`@task`: names, signatures, options and what is refused."""

import copy
import importlib
import math
import pickle
import sys
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime, timedelta
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import pytest
from pydantic import BaseModel, Field

from treadle import Client, Context, Cron, Every, Limit, Options, Retry, Worker, errors, group, task
from treadle.client.items import over
from treadle.settings import Settings
from treadle.tasks.registry import collect


class Point(BaseModel):
    x: int
    y: float = 0.5


def test_the_decorator_works_with_and_without_arguments_on_sync_and_async_functions() -> None:
    """T1."""

    @task
    def plain(n: int) -> int:
        return n

    @task(category="analysis", room="lab", name="other", timeout=3)
    async def detailed(n: int) -> int:
        return n

    assert (plain.full_name, plain.isolation) == ("@global:tasks:plain", "thread")
    assert (detailed.full_name, detailed.isolation) == ("lab:analysis:other", "async")
    assert plain(3) == 3


@task(name="doubled")
def twice(n: int) -> int:
    return 2 * n


def test_a_task_goes_to_other_processes_as_functions_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """`pool.map(shrink, paths)` worked before the function was a task."""
    assert pickle.loads(pickle.dumps(twice)) is twice
    assert pickle.loads(pickle.dumps(twice.bind(3))).task is twice
    assert copy.deepcopy(twice) is twice
    # A new process imports this module by its name, from the paths of this one.
    monkeypatch.syspath_prepend(Path(__file__).parents[3])
    with ProcessPoolExecutor(1, get_context("spawn")) as processes:
        assert list(processes.map(twice, [1, 2])) == [2, 4]


def test_a_name_may_come_first() -> None:
    """T1."""

    @task("other")
    def short(n: int) -> int:
        return n

    @task("third", category="analysis")
    async def detailed(n: int) -> int:
        return n

    assert (short.full_name, short(3)) == ("@global:tasks:other", 3)
    assert detailed.full_name == "@global:analysis:third"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("@task\ndef a(): ...\n@task\ndef a(): ...", "twice"),
        ("@task\ndef a(): ...\n@task(name='a')\ndef b(): ...", "twice"),
        ("@task\ndef a(*args): ...", r"\*args"),
        ("@task\ndef a(**kwargs): ...", r"\*\*kwargs"),
        ("@task\ndef a(x, /): ...", "by position only"),
        ("@task\ndef a(x, ctx: Context): ...", "first parameter"),
        ("@task\ndef a():\n    yield 1", "generator"),
        ("@task(isolation='thread')\nasync def a(): ...", "async"),
        ("@task(isolation='async')\ndef a(): ...", "not an async function"),
        ("@task(retries=3)\ndef a(): ...", "doesn't know retries"),
        ("@task(autoretry_for=OSError)\ndef a(): ...", "doesn't know autoretry_for; it takes .*retry_on"),
        ("@task(target='a', delay=3)\ndef a(): ...", r"doesn't know delay, target; .*Options\(delay=…, target=…\)"),
        ("@task(max_retries=-1)\ndef a(): ...", "max_retries"),
        ("@task(room='a:b')\ndef a(): ...", "':'"),
        ("@task(name=5)\ndef a(): ...", "name must be strings, .*, not '@global', 'tasks' and 5"),
        ("@task\nclass A: ...", "functions"),
        ("@task('a', name='b')\ndef a(): ...", "two names"),
        ("task(3)", "not 3: @task takes the task's name first"),
        ("import functools\ntask(functools.partial(print))", "functions"),
        ("@task\n@task\ndef a(): ...", "already is a task"),
        ("@task('a:b')\n@task('b')\ndef a(): ...", "already is a task"),
        ("@task('')\ndef a(): ...", "full name"),
        ("class A:\n    @task\n    def a(self, n: int): ...", "A.a is a method, and a worker has no self for it"),
    ],
)
def test_what_can_not_be_a_task_is_an_error_at_import(
    text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T1, T2."""
    _module(tmp_path, monkeypatch, "refused_tasks", f"from treadle import task, Context\n{text}\n")

    with pytest.raises(errors.DefinitionError, match=message):
        importlib.import_module("refused_tasks")


def test_the_same_name_in_two_modules_is_an_error_when_they_are_collected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T1."""
    text = "from treadle import task\n@task\ndef a(): ...\n"
    modules = [_module(tmp_path, monkeypatch, name, text, is_imported=True) for name in ("one_set", "other_set")]

    with pytest.raises(errors.DuplicateTask, match=r"one_set\.a and other_set\.a"):
        collect(modules)


def test_a_module_may_be_reloaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = _module(
        tmp_path, monkeypatch, "reloaded_tasks", "from treadle import task\n@task\ndef a(): ...\n", is_imported=True
    )

    importlib.reload(module)

    assert [found.full_name for found in collect([module])] == ["@global:tasks:a"]


def test_arguments_keep_defaults_and_round_trip_through_json() -> None:
    """T2."""

    @task
    def many(anything, when: datetime, point: Point, gap: timedelta = timedelta(hours=1), n: int = Field(3, gt=0)): ...

    at = datetime(2026, 1, 1, tzinfo=UTC)
    bound = many.bind({"free": [1]}, when=at, point=Point(x=1))
    arguments = many.signature.arguments(bound.payload)

    assert bound.payload == {"anything": {"free": [1]}, "when": "2026-01-01T00:00:00Z", "point": {"x": 1, "y": 0.5}}
    assert arguments == {
        "anything": {"free": [1]}, "when": at, "point": Point(x=1), "gap": timedelta(hours=1), "n": 3,
    }  # fmt: skip
    assert many.signature.schema["required"] == ["anything", "when", "point"]
    assert many.signature.schema["additionalProperties"] is False


def test_a_function_may_be_renamed_and_documented_without_changing_its_schema() -> None:
    @task(name="kept")
    def before(n: int): ...

    @task(name="kept")
    def after(n: int):
        """Documented by now."""

    assert before.signature.schema == after.signature.schema


def test_arguments_may_be_called_what_pydantic_keeps_for_itself() -> None:
    """T2."""

    @task
    def odd(json: int, model_config: int, copy: int, _hidden: int = 1, self: int = 0): ...

    payload = odd.bind(1, 2, copy=3, self=4).payload

    assert payload == odd.with_options(Options()).bind(1, 2, copy=3, self=4).payload
    assert payload == {"json": 1, "model_config": 2, "copy": 3, "self": 4}
    assert odd.signature.arguments(payload) == {"json": 1, "model_config": 2, "copy": 3, "_hidden": 1, "self": 4}
    odd(1, 2, copy=3, self=4)


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        (("x",), {}, "n: Input should be a valid integer.* not 'x'"),
        ((), {}, "n: Field required"),
        ((1, 2, 3), {}, "takes 2 arguments, but 3 were given"),
        ((1,), {"n": 2}, "n both by position and by name"),
        ((1,), {"o": 2}, "o: there is no such argument$"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_at_submit(
    args: tuple[Any, ...], kwargs: dict[str, Any], message: str
) -> None:
    """T2."""

    @task
    def picky(n: int, m: int = 1): ...

    with pytest.raises(errors.InvalidArguments, match=message):
        picky.bind(*args, **kwargs)


def test_the_context_is_no_argument_also_under_type_checking_only() -> None:
    """T2."""

    @task
    def direct(ctx: Context, n: int): ...

    @task
    def quoted(ctx: "Context", n: int): ...

    assert direct.signature.names == quoted.signature.names == ("n",)
    assert direct.signature.wants_context
    assert quoted.signature.wants_context


def test_an_annotation_that_can_not_be_resolved_says_so() -> None:
    @task
    def unclear(n: "Nowhere"): ...  # noqa: F821

    with pytest.raises(errors.DefinitionError, match="Nowhere"):
        unclear.bind(1)


class Unwilling:
    @classmethod
    def __get_pydantic_core_schema__(cls, *_: object) -> Any:
        raise ValueError("no schema of mine")


@pytest.mark.parametrize(
    ("annotation", "message"),
    [
        (Annotated[str, Field(pattern="(")], "regex parse error"),
        (Annotated[int, Field(gt="x")], "gt"),
        (Unwilling, "no schema of mine"),
        (3, "can't be described in JSON"),
        ("1 / 0", "division by zero"),
        (bytearray, r"its argument n can't be described in JSON: (?!.*For further information|.*arbitrary_types)"),
        (Context | None, "n is a Context inside .*: write Context alone"),
        (Annotated[Context, "the run"], "n is a Context inside .*: write Context alone"),
    ],
)
def test_an_annotation_that_can_not_be_described_says_so(annotation: Any, message: str) -> None:
    def unclear(n: Any) -> None: ...

    unclear.__annotations__["n"] = annotation
    described = task(unclear)

    with pytest.raises(errors.DefinitionError, match=f"(?s)unclear.*{message}"):
        described.bind("1")


def test_what_a_result_is_like_need_not_be_known() -> None:
    @task
    def unclear() -> Annotated[str, Field(pattern="(")]:
        return "it"

    assert unclear.signature.returns.read("it") == "it"


def test_option_names_never_collide_with_arguments() -> None:
    """T2."""

    @task
    def colliding(options: dict[str, int], priority: int, delay: int): ...

    bound = colliding.with_options(Options(priority=9)).bind({"a": 1}, priority=2, delay=3)
    direct = colliding.bind(options={"a": 1}, priority=2, delay=3)

    assert bound.payload == direct.payload == {"options": {"a": 1}, "priority": 2, "delay": 3}
    assert bound.options is not None
    assert bound.options.wire() == {"priority": 9}
    assert direct.options is None


def test_options_go_over_options_and_a_zero_counts() -> None:
    """T3."""

    @task
    def plain(): ...

    configured = plain.with_options(Options(max_retries=4, delay=timedelta(minutes=1))).with_options(
        Options(max_retries=0)
    )
    bound = plain.bind(options=Options(timeout=2))

    assert configured.options.wire() == {"max_retries": 0, "delay": 60.0}
    assert bound.options is not None
    assert bound.options.wire() == {"timeout": 2.0}
    later = Options(scheduled_at=datetime(2040, 1, 1, tzinfo=UTC))
    assert Options(delay=3).over(later).wire() == {"delay": 3.0}
    assert later.over(Options(delay=3, priority=1)).wire() == {"scheduled_at": "2040-01-01T00:00:00Z", "priority": 1}
    assert Options(priority=1, delay=None).over(later).wire() == later.wire() | {"priority": 1}
    for wrong in (
        lambda: plain.bind(options={"timeout": 2}),  # type: ignore[call-overload]
        lambda: plain.with_options({"timeout": 2}),  # type: ignore[arg-type]
        lambda: over({"timeout": 2}, None),  # type: ignore[arg-type]
    ):
        with pytest.raises(errors.InvalidArguments, match=r"options must be Options\(…\), not"):
            wrong()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda _: Options(dely=3), "unknown option dely; there are .*delay"),  # type: ignore[call-arg]
        (lambda _: Options(priority="high", timeout=-1), "priority: .* not 'high'; timeout: .* not -1"),  # type: ignore[arg-type]
        (lambda _: Options(delay=3, scheduled_at=datetime.now(UTC)), "^give either delay or scheduled_at, not both$"),
        (Worker, r"write \[plain\]"),
        (lambda made: Worker([made.function]), "not a task: decorate"),
        (lambda made: Worker([made], concurrency=0), "at least 1, not 0"),
        (lambda made: Worker([made], concurrency=2, min_concurrency=3), "from 0 to the concurrency of 2, not 3"),
        (lambda made: Worker([made], prefetch=-1), "0 or more, not -1"),
        (lambda made: Worker([made], drain_grace=-1), "0 or more, not -1"),
        (lambda made: Worker([made], drain_grace="x"), "0 or more, not 'x'"),
        (lambda made: Worker([made], concurrency="8"), "concurrency must be a whole number, not '8'"),
        (lambda made: Worker([made], name="x" * 256), "name must be a text of up to 255 characters"),
        (lambda made: Worker([made], group=5), "group must be a text of up to 255 characters .*, not 5"),
        (lambda made: Worker([made], pool="a\0"), r"pool must be a text .* without NUL, not 'a\\x00'"),
        (lambda _: Options(max_retries=10**5000), "max_retries: .*, not a whole number of about 5,000 digits"),
        (lambda _: Options(timeout=10**5000), "timeout: .*, not a whole number of about 5,000 digits"),
        (lambda _: Options(tags={"n": [10**5000]}), "tags: n.*4,300 digits"),
        (lambda _: Limit("gpu", rate=(10**5000, 1)), "not a pair of count and seconds"),
        (lambda _: Options(id="x"), "id: write a UUID, such as .*, not 'x'"),
        (lambda _: Options(limits=["gpu"]), r"limits: write a list of Limit\(…\), not"),
        (lambda made: task(timeout=0)(made.function), "@task of .*: timeout: write more than 0, not 0$"),
        (lambda made: task(fair="x")(made.function), "fair='x' of .* must be 'room'"),  # type: ignore[call-overload]
        (
            lambda made: task(limits=[Limit("a", key="/~")])(made.function),
            r"limits: 0.key: .* JSON pointer.*, not '/~'$",
        ),
        (lambda _: Limit("a", concurrency=0), r"^Limit\('a'\): concurrency: .*, not 0$"),
        (lambda _: Limit("a/b"), r"^Limit\('a/b'\): name: a limit's name .*, not 'a/b'$"),
        (lambda _: Limit("a", rate=(5, 0)), r"^Limit\('a'\): rate.seconds: .*, not 0.0$"),
        (lambda _: Limit("a", concurrency=1, on_full="stop"), r"^Limit\('a'\): on_full: .* not 'stop'$"),  # type: ignore[arg-type]
        (lambda _: Limit("a", rate=("1", 2)), "not a pair of count and seconds"),  # type: ignore[arg-type]
        (lambda _: Every("1m"), "Every.'1m'. is not a duration"),  # type: ignore[arg-type]
        (lambda _: Every(5, jitter="a"), "jitter='a': a schedule's jitter must be a duration"),  # type: ignore[arg-type]
        (lambda _: Every(5, deadline="a"), "deadline='a': a schedule's deadline must be a duration"),  # type: ignore[arg-type]
        (lambda _: Every(5, options={}), r"options must be Options\(…\), not {}"),  # type: ignore[arg-type]
        (lambda _: Retry(after=-5), r"Retry\(after=-5\): write seconds from 0 up"),
        (
            lambda _: Retry(after=math.inf),
            r"Retry\(after=inf\): write seconds from 0 up, at most 315,360,000 \(ten years\)",
        ),
        (lambda _: Retry(after=2.0**64), r"Retry\(after=1\.8446.*\): write seconds from 0 up"),
        (lambda _: Retry(after=315_360_001), r"Retry\(after=315360001\): .*at most 315,360,000 \(ten years\)"),
        (
            lambda _: Every(timedelta(days=36_500)),
            r"interval=datetime.timedelta\(days=36500\) of a schedule: .*315360000",
        ),
        (lambda _: Every(60, jitter=timedelta(days=2)), r"jitter=datetime.timedelta\(days=2\) of a schedule: .*86400"),
        (lambda _: Every(60, jitter=60, deadline=60), "^a schedule's deadline: must be longer than the jitter"),
        (lambda _: Every(60, arguments=5), "^arguments=5: a schedule's arguments must be a dict"),  # type: ignore[arg-type]
        (lambda _: Cron("* * * * *", tz=ZoneInfo("UTC")), "^tz=zoneinfo.*write a text"),  # type: ignore[arg-type]
        (lambda _: Options(deadline=timedelta(days=1)), r"^deadline: write .*, not datetime.timedelta\(days=1\)$"),  # type: ignore[arg-type]
        (lambda _: Every(math.nan), r"Every\(nan\) is not a duration"),
        (lambda _: Every(5, jitter=math.nan), "jitter=nan: a schedule's jitter must be a duration"),
        (lambda _: Every(5, deadline=math.nan), "deadline=nan: a schedule's deadline must be a duration"),
        (lambda made: Worker([made], drain_grace=math.nan), "0 or more, not nan"),
        (group, r"of task.bind\(…\) or a chain, not"),
        (lambda made: group([made.bind(), made.bind()]), r"or a chain, not \[.*; write \* before several of them"),
        (lambda made: group(made.bind() for _ in "ab"), "write \\* before several of them"),
    ],
)
def test_what_is_misused_is_said_in_a_sentence(wrong: Any, message: str) -> None:
    @task
    def plain(): ...

    with pytest.raises((ValueError, errors.DefinitionError), match=message) as refusal:
        wrong(plain)

    assert "pydantic" not in str(refusal.value)


async def test_what_is_submitted_without_its_arguments_is_said_in_a_sentence() -> None:
    @task
    def plain(): ...

    async with Client("http://127.0.0.1:1", "t") as client:
        with pytest.raises(errors.InvalidArguments, match=r"submit plain\.bind"):
            await client.submit(plain)  # type: ignore[arg-type]
        with pytest.raises(errors.InvalidArguments, match="a plain call runs the function"):
            await client.submit(plain())  # type: ignore[arg-type]
        for call in (client.submit(plain.bind(), options={}), client.submit_raw("@global:tasks:plain", {}, options={})):  # type: ignore[arg-type]
            with pytest.raises(errors.InvalidArguments, match=r"options must be Options\(…\), not {}"):
                await call


def test_the_decorator_goes_over_settings_when_the_job_is_registered() -> None:
    """T3."""

    @task(max_retries=0, retry_base=timedelta(seconds=2), weight=3)
    def plain(): ...

    body = plain.registration(Settings(max_retries=9, timeout=7), replace=True)

    assert (body["max_retries"], body["max_requeues"], body["retry_base"], body["retry_multiplier"]) == (0, 5, 2.0, 2.0)
    assert (body["timeout"], body["weight"], body["retain"], body["replace"]) == (7, 3, True, True)


def _module(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str, *, is_imported: bool = False) -> Any:
    (folder / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, name, raising=False)
    importlib.invalidate_caches()
    return importlib.import_module(name) if is_imported else None
