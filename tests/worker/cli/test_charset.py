"""A command whose output has not every character, as in a Latin-1 locale or a pipe on Windows."""

import json
import os
import subprocess
import sys

import pytest

from tests.worker.cli.conftest import Command, Shop

TEXT = "Żółw é 😀"


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252"])
def test_what_the_encoding_lacks_is_spelt_out_and_json_stays_json(encoding: str, command: Command, shop: Shop) -> None:
    shop.submit(payload={"text": TEXT})

    texts, told = (said(command, encoding, *words) for words in (["tasks"], ["tasks", "--json"]))

    assert "\\u017bó\\u0142w" in texts
    assert "\\ud83d\\ude00" in texts
    assert TEXT in [task["payload"].get("text") for task in json.loads(told)["items"]]


def said(command: Command, encoding: str, *words: str) -> str:
    environment = {**os.environ, **command.environment, "PYTHONIOENCODING": encoding}
    done = subprocess.run([sys.executable, "-m", "treadle", *words], env=environment, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode(encoding)
