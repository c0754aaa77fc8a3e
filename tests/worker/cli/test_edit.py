"""`treadle edit`, as someone who only reads the help would use it (E9)."""

from tests.worker.cli.conftest import Command, Shop

WORDS = (
    "--priority 2 --delay 60 --deadline 2999-01-01T00:00:00+0000 --run-timeout 5 --max-retries 1 --max-requeues 2"
    " --retry-base 1 --retry-multiplier 3 --retry-randomization 0.5 --lease-seconds 20 --heartbeat-increment 5"
    " --start-timeout 9 --on-failure release --target crane --weight 2 --budget 7 --pool gpu --tag a=b"
    " --scope queue:read:lab --unique-key k"
)


def test_everything_that_a_submit_says_is_said_anew(command: Command, shop: Shop) -> None:
    first, second = shop.submit(), shop.submit()
    [item] = command.read("edit", first, *WORDS.split(), "--payload", '{"x": 1}', "--checkpoint", "[1]")

    expected = {
        "status": "scheduled", "priority": 2, "deadline": "2999-01-01T00:00:00Z", "timeout": 5, "max_retries": 1,
        "max_requeues": 2, "retry_base": 1, "retry_multiplier": 3, "retry_randomization": 0.5, "lease_seconds": 20,
        "heartbeat_increment": 5, "start_timeout": 9, "on_failure": "release", "target": "crane", "weight": 2,
        "budget": 7, "pool": "gpu", "tags": {"a": "b"}, "scopes": ["queue:read:lab"], "unique_key": "k",
        "payload": {"x": 1}, "checkpoint": [1],
    }  # fmt: skip
    assert {name: item[name] for name in expected} == expected
    assert command.said("edit", second, "--at", "2999-01-01T00:00:00+0000") == f"{second} scheduled\n"
    assert f"the unique key 'k' is held by task {first}" in command.refused("edit", second, "--unique-key", "k")


def test_a_tag_may_be_any_json_and_is_found_and_shown_by_its_path(command: Command, shop: Shop) -> None:
    task = shop.submit()

    command.said("edit", task, "--tag", 'region:={"name": "eu", "zones": [1, 2]}', "--tag", "who=mia")

    assert command.said("task", task).count("region.name=eu, region.zones=1, region.zones=2, who=mia") == 1
    [found] = command.read("tasks", f"job:{shop.job}", "tag.region.name:eu")["items"]
    assert found["id"] == task
    assert "is not valid JSON" in command.refused("edit", task, "--tag", "region:={", code=2)


def test_what_is_taken_away_is_named(command: Command, shop: Shop) -> None:
    task = shop.submit(timeout=5, target="crane", tags={"a": "b"}, scopes=["queue:read:lab"])

    [item] = command.read(
        "edit", task, "--clear", "run-timeout", "--clear", "target", "--clear", "tags", "--clear", "scopes"
    )

    assert (item["timeout"], item["target"], item["tags"], item["scopes"]) == (None, None, None, None)
    assert "nothing to change was given" in command.refused("edit", task, code=2)
    assert "not both" in command.refused("edit", task, "--pool", "a", "--clear", "pool", code=2)


def test_an_edit_that_is_refused_is_said_and_the_others_are_done(command: Command, shop: Shop) -> None:
    over, task = shop.submit(), shop.submit()
    command.said("cancel", over)

    result = command("edit", over, task, "--priority", "3")

    assert (result.exit_code, result.stdout) == (1, f"{task} pending\n")
    assert "only scheduled, blocked and pending tasks can be edited" in result.stderr
    assert "version 2, not 1" in command.refused("edit", task, "--weight", "2", "--if-version", "1")
