"""`treadle submit --wait`: what it says while it waits."""

from tests.worker.cli.conftest import Command, Shop


def said_while(command: Command, shop: Shop, task_id: str, *words: str) -> list[str]:
    """Return what the command says of a task that is there, and waited for a second."""
    same = ["submit", shop.job, "--id", task_id, "--wait", "--timeout", "1", *words]
    return command.refused(*same).splitlines()


def test_a_task_that_is_paused_is_said_to_be_so_once_while_it_is_waited_for(command: Command, shop: Shop) -> None:
    task = shop.submit()
    shop.start(task)
    shop.report(task, "paused", detail="look at it")

    for words in ((), ("--json",)):
        told, *others = said_while(command, shop, task, *words)

        assert told == f"task {task} is paused (interrupted): look at it; `treadle resume {task}` lets it continue"
        assert [line for line in others if "paused" in line] == []


def test_a_task_that_waits_for_a_message_is_said_to_do_so(command: Command, shop: Shop) -> None:
    task = shop.submit()
    shop.start(task)
    shop.report(task, "suspended", step="go", receives=True)

    assert said_while(command, shop, task)[0] == f"task {task} waits for the message 'go'; send it with `treadle send`"


def test_of_a_task_that_goes_on_by_itself_nothing_is_said(command: Command, shop: Shop) -> None:
    task = shop.submit()
    shop.start(task)
    shop.report(task, "suspended", step="treadle.sleep", seconds=3600)

    assert said_while(command, shop, task)[0].startswith("Error: ")


def test_a_job_of_a_similar_name_is_told(command: Command, shop: Shop) -> None:
    told = command.refused("submit", f"{shop.job}s")

    assert f"there is no job {shop.job}s visible from room @global (did you mean {shop.job}?)" in told
