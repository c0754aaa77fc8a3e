"""`treadle artifacts`: what a task has stored, and its download (C10)."""

import json
from pathlib import Path

from tests.worker.cli.conftest import Command, Shop


def store(shop: Shop, task_id: str, name: str, body: bytes, *, run: int = 0) -> None:
    wanted = {"name": name, "content_type": "text/plain", "content_length": len(body)}
    upload = shop.http.post(f"/v1/tasks/{task_id}/runs/{run}/artifacts", json=wanted).json()
    assert shop.http.put(upload["put_url"], content=body, headers=upload["headers"]).status_code == 201


def test_c10_artifacts_are_listed_and_saved_under_their_names(shop: Shop, command: Command, tmp_path: Path) -> None:
    task_id = shop.submit()
    assert "no artifacts" in command.said("artifacts", task_id)
    shop.start(task_id)
    store(shop, task_id, "report/index.html", b"<p>hello")
    store(shop, task_id, "data.bin", bytes(1_500_000))

    told = command.said("artifacts", task_id)
    saved = command.said("artifacts", task_id, "--download", str(tmp_path))

    assert [line.split()[:4] for line in told.splitlines()[1:]] == [
        ["data.bin", "0", "1.5", "MB"],
        ["report/index.html", "0", "8", "B"],
    ]
    assert "2 saved" in saved
    assert (tmp_path / "report/index.html").read_bytes() == b"<p>hello"
    assert len((tmp_path / "data.bin").read_bytes()) == 1_500_000
    assert [item["name"] for item in command.read("artifacts", task_id)] == ["data.bin", "report/index.html"]
    assert json.loads(command.said("artifacts", task_id, "--run", "1", "--json")) == []
    assert command.said("artifacts", task_id, "--run", "1") == "Run 1 of the task has no artifacts.\n"


def test_c10_an_artifact_is_never_saved_outside_of_the_directory(shop: Shop, command: Command, tmp_path: Path) -> None:
    task_id = shop.submit()
    shop.start(task_id)
    store(shop, task_id, "link/x", b"hello")
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "link").symlink_to(tmp_path)

    said = command.refused("artifacts", task_id, "--download", str(inside))

    assert "outside" in said
    assert not (tmp_path / "x").exists()


def test_a_directory_that_can_t_be_written_is_told_in_a_sentence(shop: Shop, command: Command, tmp_path: Path) -> None:
    task_id = shop.submit()
    shop.start(task_id)
    store(shop, task_id, "a/b.txt", b"hello")
    (tmp_path / "a").write_text("in the way")

    told = command.refused("artifacts", task_id, "--download", str(tmp_path))

    assert told == f"Error: 'a/b.txt' can't be saved in {tmp_path} (File exists)\n"


def test_a_name_that_can_t_be_saved_keeps_no_other_artifact_from_it(
    shop: Shop, command: Command, tmp_path: Path
) -> None:
    task_id = shop.submit()
    shop.start(task_id)
    for name in ("a", "a/b", "c/d", "\u00e9" * 255, "z"):
        store(shop, task_id, name, name[:2].encode())
    (tmp_path / "c/d").mkdir(parents=True)

    result = command("artifacts", task_id, "--download", str(tmp_path))

    assert result.exit_code == 1
    assert [(tmp_path / name).read_bytes() for name in ("a", "z")] == [b"a", b"z"]
    assert "2 saved in" in result.stdout
    assert list((tmp_path / "c/d").iterdir()) == []
    for name, why in (("a/b", "File exists"), ("c/d", "Is a directory"), ("\u00e9" * 255, "File name too long")):
        assert f"Error: '{name}' can't be saved in {tmp_path} ({why})\n" in result.stderr


def test_a_directory_that_may_not_be_made_is_told_in_a_sentence(shop: Shop, command: Command, tmp_path: Path) -> None:
    task_id = shop.submit()
    shop.start(task_id)
    store(shop, task_id, "b.txt", b"hello")
    (tmp_path / "file").touch()
    within = tmp_path / "file" / "results"

    told = command.refused("artifacts", task_id, "--download", str(within))

    assert told == f"Error: {within} can't be written (Not a directory): check its permissions and disk\n"
