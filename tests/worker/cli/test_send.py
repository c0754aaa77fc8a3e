"""`treadle send`: what became of the message, and what the task waits for where nothing has asked for it."""

from tests.worker.cli.conftest import Command, Shop


def _waiting(shop: Shop) -> str:
    """Return a task that waits for the message `approved`."""
    task = shop.submit()
    shop.start(task)
    shop.report(task, "suspended", step="approved", receives=True)
    return task


def test_who_sends_by_another_name_is_told_which_one_the_task_waits_for(command: Command, shop: Shop) -> None:
    """It said no more than that the message waits."""
    task = _waiting(shop)
    unread = f"{task} aproved waits until the task's code receives it"

    said = command.said("send", task, "aproved", "1")
    assert said == f"{unread}; the task waits for the message 'approved'; send it with `treadle send`\n"

    assert command.said("send", task, "approved", "1") == f"{task} approved received\n"
    assert command.said("send", task, "aproved", "2") == f"{unread}\n"
