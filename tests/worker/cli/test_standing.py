"""What keeps a task from going on by itself, as `treadle task` and `treadle submit --wait` say it."""

from tests.worker.cli.conftest import Command, Shop


def _desert(shop: Shop) -> None:
    """Let the worker go; the queue stays for what waits in it."""
    shop.http.delete(f"/v1/workers/{shop.worker_id}").raise_for_status()


def test_a_task_that_no_worker_can_take_says_so(command: Command, shop: Shop) -> None:
    """It was pending, and number 1 of its queue; `treadle submit --wait` waited without a word."""
    task = shop.submit()
    said = f"waits for a worker, but none serves {shop.job}; `treadle worker MODULE` starts one"
    assert "\nnote " not in command.said("task", task)
    _desert(shop)

    assert f"\nnote       it {said}\n" in command.said("task", task)
    assert command.read("task", task)["note"] == said
    waited = command.refused("submit", shop.job, "--id", task, "--wait", "--timeout", "1").splitlines()
    assert waited[0] == f"task {task} {said}"
    assert f"`treadle task {task}` shows what it is waiting for" in waited[-1]


def test_a_task_in_a_paused_queue_says_what_lets_it_go_on(command: Command, shop: Shop) -> None:
    task = shop.submit()
    command.said("pause", "--queue", shop.job)

    [note] = [line for line in command.said("task", task).splitlines() if line.startswith("note ")]
    assert note.endswith(f"it waits in a paused queue; `treadle resume --queue {shop.job}` lets it continue")
    command.said("resume", "--queue", shop.job)
    assert "\nnote " not in command.said("task", task)


def test_a_task_of_a_pool_that_no_worker_is_of_says_so(command: Command, shop: Shop) -> None:
    """Workers of other pools serve its queue: it was number 1 there, and nothing told why it stayed."""
    task = shop.submit(pool="gpu")
    said = f"waits for a worker of its pool, but none serves {shop.job}; `treadle worker MODULE --pool gpu` starts one"
    assert command.read("task", task)["note"] == said

    shop.worker(pool="gpu")

    assert command.read("task", task)["note"] is None


def test_a_task_that_is_too_heavy_for_every_worker_says_so(command: Command, shop: Shop) -> None:
    shop.worker(concurrency=4)
    light, heavy = shop.submit(weight=4), shop.submit(weight=5)
    assert command.read("task", light)["note"] is None
    said = "waits for a worker that can take its weight of 5, but the largest takes 4"
    starts = "`treadle worker MODULE --concurrency 5` starts one"
    assert command.read("task", heavy)["note"] == f"{said}; {starts}"

    shop.worker(concurrency=5)

    assert command.read("task", heavy)["note"] is None


def test_who_does_not_see_all_workers_is_told_of_none(command: Command, shop: Shop) -> None:
    token = command.said("token", "create", "alone", "--scope", f"queue:create-task:@global/{shop.job}").strip()
    theirs = Command(command.environment | {"TREADLE_TOKEN": token})

    assert theirs.read("task", theirs.said("submit", shop.job, "--pool", "gpu").strip())["note"] is None


def test_who_sees_a_task_and_not_its_queue_is_shown_the_task(command: Command, shop: Shop) -> None:
    token = command.said("token", "create", "narrow", "--scope", f"queue:create-task:@global/{shop.job}").strip()
    theirs = Command(command.environment | {"TREADLE_TOKEN": token})
    task = theirs.said("submit", shop.job).strip()
    _desert(shop)

    assert theirs.said("task", task).startswith(f"task       {task}\n")
