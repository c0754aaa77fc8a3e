"""`treadle token rotate-keys`: the keys of temporary credentials."""

import httpx

from tests.worker.cli.conftest import Command, Shop
from treadle_server.testing import Served


def status_of(served: Served, credential: str) -> int:
    headers = {"Authorization": f"Bearer {credential}"}
    return httpx.get(f"{served.url}/v1/whoami", headers=headers).status_code


def credential_of(shop: Shop) -> str:
    shop.submit()
    claimed = shop.http.post("/v1/tasks/claim", json={"worker_id": shop.worker_id}).json()
    return str(claimed["task"]["credentials"])


def test_g10_keys_are_rotated_and_revoked_on_the_command_line(command: Command, shop: Shop, served: Served) -> None:
    credential = credential_of(shop)

    kept = command.read("token", "rotate-keys")["items"]
    table = command.said("token", "rotate-keys")

    assert kept[0]["valid_until"] is None
    assert all(key["valid_until"] is not None for key in kept[1:])
    assert kept[0]["id"] in table
    assert "in 60m" in table or "in 59m" in table or "in 1h" in table
    assert status_of(served, credential) == 200
    assert len(command.read("token", "rotate-keys", "--revoke")["items"]) == 1
    assert status_of(served, credential) == 401
