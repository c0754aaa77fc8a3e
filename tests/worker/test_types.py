"""What a type checker knows of tasks: `submit` and `bind` keep the function's parameters and its result."""

from pathlib import Path

from mypy import api

USE = """
from typing import assert_type

from treadle import Context, Options, SyncClient, TaskHandle, task
from treadle.tasks import Bound
from treadle.wire import TaskItem


@task
async def measure(ctx: Context, n: int, label: str = "") -> float:
    return 1.0


@task(max_retries=3)
def name(n: int) -> str:
    return ""


async def use() -> None:
    assert_type(await measure.submit(1, label="x"), TaskHandle[float])
    assert_type(await (await measure.submit(1)).result(), float)
    assert_type(await name.submit(1, options=Options(delay=3)), TaskHandle[str])
    assert_type(name.bind(1), Bound[str])
    await measure.submit("x")  # type: ignore[call-overload]
    await name.submit(n=1, m=2)  # type: ignore[call-overload]
    name.bind("x")  # type: ignore[call-overload]
    name.with_options(Options()).bind("x")  # type: ignore[arg-type]


def block() -> None:
    with SyncClient() as client:
        assert_type(client.submit(name.bind(1)).result(), str)
        assert_type(client.get("id"), TaskItem)
        client.cancel(3)  # type: ignore[arg-type]
"""


def test_a_type_checker_sees_the_parameters_and_results_of_tasks(tmp_path: Path) -> None:
    use = tmp_path / "use.py"
    use.write_text(USE)
    settings = Path(__file__).parents[2] / "pyproject.toml"

    output, errors, code = api.run(["--strict", "--config-file", str(settings), str(use)])

    assert (code, errors) == (0, ""), output
