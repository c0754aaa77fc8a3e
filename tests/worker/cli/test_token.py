"""`treadle token`: make, list and revoke."""

import httpx
import pytest

from tests.worker.cli.conftest import Command
from treadle_server.testing import Served


def _whoami(served: Served, token: str) -> httpx.Response:
    return httpx.get(f"{served.url}/v1/whoami", headers={"Authorization": f"Bearer {token}"})


def test_a_token_is_printed_once_listed_without_its_secret_and_revoked_by_its_name_c8(
    served: Served, command: Command
) -> None:
    token = command.said(
        "token", "create", "ci", "--scope", "queue:read:lab", "--scope", "queue:control-task:*"
    ).strip()

    assert _whoami(served, token).json()["scopes"] == ["queue:control-task:*", "queue:read:lab"]
    listed = command.said("token", "list")
    assert token not in listed
    assert command.said("token", "--limit", "1").splitlines()[0].split() == listed.splitlines()[0].split()
    assert command.read("token", "--json")["total"] == command.read("token", "list")["total"]
    [row] = [line for line in listed.splitlines() if " ci " in line]
    assert "queue:read:lab queue:control-task:*" in row
    assert row.endswith("valid")

    assert "revoked" in command.said("token", "revoke", "ci")
    assert _whoami(served, token).status_code == 401
    [row] = [line for line in command.said("token", "list").splitlines() if " ci " in line]
    assert row.endswith("revoked")
    assert "no valid token is named 'ci'" in command.refused("token", "revoke", "ci")
    assert "no valid token is named '0c' or has an id that begins with it" in command.refused("token", "revoke", "0c")


def test_of_several_tokens_of_one_name_none_is_revoked_but_by_its_id(served: Served, command: Command) -> None:
    made = [command.read("token", "create", "twin") for _ in range(2)]

    said = command.refused("token", "revoke", "twin")

    assert all(one["id"] in said for one in made)
    assert [_whoami(served, one["token"]).status_code for one in made] == [200, 200]
    assert "more than one valid token's id begins with 0" in command.refused("token", "revoke", "0")
    assert command.read("token", "revoke", made[0]["id"][:-1]) == {"revoked": made[0]["id"]}
    assert [_whoami(served, one["token"]).status_code for one in made] == [401, 200]
    command.said("token", "revoke", "twin")
    assert _whoami(served, made[1]["token"]).status_code == 401


@pytest.mark.parametrize(("given", "days"), [("30d", 30), ("48h", 2), ("2w", 14), ("2d12h", 2)])
def test_a_token_ends_after_the_duration_that_it_was_given(command: Command, given: str, days: int) -> None:
    made = command.read("token", "create", f"for-{given}", "--expires", given, "--superuser")

    assert made["superuser"] is True
    assert made["expires_at"][:4].isdigit()
    [row] = [line for line in command.said("token", "list").splitlines() if f"for-{given}" in line]
    assert f"in {days}d" in row


@pytest.mark.parametrize("given", ["30", "-1d", "1y", "soon", "9999w"])
def test_a_duration_that_is_none_is_refused_and_makes_no_token_g9(command: Command, given: str) -> None:
    before = command.read("token", "list")["total"]

    assert "is not a duration" in command.refused("token", "create", "x", f"--expires={given}", code=2)
    assert "in the past" in command.refused("token", "create", "x", "--expires=0d")
    assert command.read("token", "list")["total"] == before


def test_a_scope_that_is_none_is_refused_with_its_place_c8_g9(command: Command) -> None:
    said = command.refused("token", "create", "x", "--scope", "queue:read:lab", "--scope", "queue:**")

    assert "scopes.1" in said
    assert "**" in said


def test_only_superusers_make_tokens_z3(command: Command) -> None:
    token = command.said("token", "create", "plain-user").strip()

    said = command("token", "create", "more", TREADLE_TOKEN=token)

    assert said.exit_code == 1
    assert "superuser" in said.stderr
