"""`treadle webhooks`: set, listed, deleted, and their dead deliveries."""

from tests.worker.cli.conftest import Command, Shop


def test_a_webhook_is_set_listed_and_deleted_and_its_secret_is_printed_once_e12(command: Command) -> None:
    url = "https://example.org/hook"

    secret = command.said("webhooks", "set", "ci", url, "--room", "cli", "--status", "failed").strip()

    assert secret.startswith("whsec_")
    listed = command.said("webhooks", "list", "--room", "cli")
    assert listed.splitlines()[1].split()[:4] == ["ci", url, "all", "failed"]
    assert secret not in listed
    assert command.said("webhooks", "--room", "cli") == listed
    assert "its secret is unchanged" in command.said("webhooks", "set", "ci", url, "--room", "cli")
    assert command.read("webhooks", "set", "ci", url, "--room", "cli", "--rotate")["secret"] != secret
    assert command.said("webhooks", "deliveries", "ci", "--room", "cli") == "No dead deliveries of ci.\n"
    assert command.said("webhooks", "delete", "ci", "--room", "cli") == "ci deleted\n"
    assert command.said("webhooks", "list", "--room", "cli") == "No webhooks in cli.\n"
    command.said("webhooks", "set", "ci", url, "--room", "cli")
    assert command.read("webhooks", "delete", "ci", "--room", "cli") == {"deleted": "ci"}
    assert "Webhook not found" in command.refused("webhooks", "delete", "ci", "--room", "cli")
    assert "write a URL such as" in command.refused("webhooks", "set", "ci", "nowhere", "--room", "cli")


def test_what_is_still_tried_is_listed_and_only_what_is_dead_is_redelivered_e12(command: Command, shop: Shop) -> None:
    """The name leads to the server's own machine, to which it does not send: the delivery is tried again and again."""
    command.said("webhooks", "set", "here", "http://localhost:1/", "--job", shop.job)
    task = shop.submit()
    command.said("cancel", task)
    waiting = command.read("webhooks", "deliveries", "here", "--waiting")["items"]

    assert [item["task_id"] for item in waiting] == [task]
    assert "give either IDs or --all" in command.refused("webhooks", "redeliver", "here", code=2)
    assert "not a dead delivery" in command.refused("webhooks", "redeliver", "here", waiting[0]["id"])
    assert "'x' is not a dead delivery's id" in command.refused("webhooks", "redeliver", "here", "x", code=2)
    assert "no dead delivery's id begins with 0" in command.refused("webhooks", "redeliver", "here", "0")
    assert command.said("webhooks", "redeliver", "here", "--all") == "0 deliveries are tried again\n"
    command.said("webhooks", "delete", "here")
