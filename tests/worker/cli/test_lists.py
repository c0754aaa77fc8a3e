"""`treadle jobs` and `treadle workers`: what is claimed does not run yet."""

from tests.worker.cli.conftest import Command, Shop


def test_what_a_worker_has_claimed_ahead_neither_runs_nor_uses_a_slot(command: Command, shop: Shop) -> None:
    """As the dashboard tells it: of one slot three were used."""
    started, *_ = [shop.submit() for _ in range(3)]
    shop.start(started)
    for _ in range(2):
        assert shop.http.post("/v1/tasks/claim", json={"worker_id": shop.worker_id}).json()["task"] is not None

    jobs, workers = command.said("jobs"), command.said("workers")

    [line] = [line.split() for line in jobs.splitlines() if shop.job in line]
    assert line[1:4] == ["0", "2", "1"]
    [told] = [line for line in workers.splitlines() if shop.worker_id in line]
    assert "  1/1 +2  " in told
