"""A task as an object: what tests and interactive shells do with its methods."""

import inspect
from unittest import mock

import pytest

from treadle import errors, task

pytestmark = pytest.mark.anyio


@task
def double(n: int) -> int:
    return 2 * n


async def test_a_test_may_put_something_else_in_the_place_of_a_submit(monkeypatch: pytest.MonkeyPatch) -> None:
    """They were properties, which are not to be replaced: `property 'submit' of 'Task' object has no setter`."""
    with mock.patch.object(double, "submit") as submit:
        await double.submit(1)
    submit.assert_awaited_once_with(1)
    with mock.patch.object(double, "bind", return_value="bound"):
        assert double.bind(1) == "bound"
    with monkeypatch.context() as patching:
        patching.setattr(double, "submit_sync", str)
        assert double.submit_sync(1) == "1"  # type: ignore[comparison-overlap]

    assert double.bind(1).payload == {"n": 1}
    with pytest.raises(errors.NoClient):
        await double.submit(1)
    with pytest.raises(errors.NoClient):
        double.submit_sync(1)


@pytest.mark.parametrize("name", ["bind", "submit", "submit_sync"])
def test_what_submits_is_told_by_its_own_name_with_what_it_does(name: str) -> None:
    method = getattr(double, name)

    assert method.__name__ == name
    assert method.__qualname__ == f"Task.{name}"
    assert inspect.getdoc(method)
