"""`treadle workers drain`: who is asked, and what is said of whom there is not."""

from tests.worker.cli.conftest import Command, Shop


def state(shop: Shop, worker_id: str) -> str:
    return str(shop.http.get(f"/v1/workers/{worker_id}").json()["state"])


def test_workers_are_asked_to_drain_by_name_and_by_the_beginning_of_an_id(command: Command, shop: Shop) -> None:
    shop.worker(name="drain-me")
    named = shop.http.get("/v1/workers").json()["items"][0]["id"]

    assert command.said("workers", "drain", "drain-me", shop.worker_id[:-1]) == (
        f"drain-me was asked to drain\n{shop.worker_id} was asked to drain\n"
    )
    assert [state(shop, worker_id) for worker_id in (named, shop.worker_id)] == ["draining"] * 2
    assert [item["state"] for item in command.read("workers", "drain", named)] == ["draining"]


def test_a_name_that_nobody_or_more_than_one_has_drains_none(command: Command, shop: Shop) -> None:
    for _ in range(2):
        shop.worker(name="twin")
    twins = [item["id"] for item in shop.http.get("/v1/workers").json()["items"][:2]]

    assert "twin matches more than one worker, such as" in command.refused("workers", "drain", "twin")
    assert "no worker has the name nobody" in command.refused("workers", "drain", "nobody")
    assert "there is no worker" in command.refused("workers", "drain", "00000000-0000-7000-8000-000000000000")
    assert [state(shop, worker_id) for worker_id in twins] == ["online"] * 2


def test_workers_without_a_command_lists_them(command: Command, shop: Shop) -> None:
    assert command.said("workers").splitlines()[0].split()[:3] == ["ID", "NAME", "STATE"]
    assert shop.worker_id in command.said("workers", "--room", "@global")
