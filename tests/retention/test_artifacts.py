"""Artifacts go with their tasks: rows and objects (E12, C10)."""

from tests.artifacts.conftest import either, sqlite_url
from tests.artifacts.studio import Studio
from treadle_server.services.retention import EVERY, Retention

__all__ = ["either", "sqlite_url"]


async def test_the_objects_of_a_tasks_artifacts_go_with_it_and_no_others_e12_c10(either: Studio) -> None:
    old, young = await either.started(), await either.started()
    for task in (old, young):
        await either.store(task, name="one")
        await either.store(task, name="two")
    await either.report(old, "completed")
    assert len(either.files) == 4
    retention = Retention(either.served.engine, either.served.settings.retention, either.objects)
    either.clock.advance(31 * 86_400)

    while await retention.turn() < EVERY:
        pass

    assert (await either.root.get(f"/v1/tasks/{old}")).status_code == 404
    assert await either.names(young) == ["one", "two"]
    assert len(either.files) == 2


async def test_a_removal_on_request_takes_the_objects_too_e12_c10(either: Studio) -> None:
    task = await either.started()
    await either.store(task)
    await either.report(task, "failed", error="x")

    removed = await either.root.post("/v1/prune", json={"older_than": 0})

    assert (removed.json()["tasks"], either.files) == (1, [])


async def test_a_removal_on_request_says_what_went_though_an_object_could_not_be_removed_e12_c10(
    either: Studio,
) -> None:
    """It said that nothing was changed, and named none of the tasks that it had removed."""
    task = await either.started()
    await either.store(task)
    await either.report(task, "completed")
    [path] = either.files
    path.unlink()
    path.mkdir()

    removed = await either.root.post("/v1/prune", json={"older_than": 0})

    assert (removed.status_code, removed.json()["tasks"]) == (200, 1)
    assert (await either.root.get(f"/v1/tasks/{task}")).status_code == 404
