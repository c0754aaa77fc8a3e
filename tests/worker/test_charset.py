"""A process whose output has not every character, as in a Latin-1 locale or a pipe on Windows, or in the locale C."""

import asyncio
import json
import os
import signal
import subprocess
import sys

import pytest

from tests.worker import jobs
from tests.worker.cli.conftest import Command, Shop, command, served, shop
from treadle import Client
from treadle_server.testing import Served

__all__ = ["command", "served", "shop"]

TEXT = "Żółw é 😀"


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "latin-1:surrogateescape"])
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
    return done.stdout.decode(encoding.partition(":")[0])


@pytest.mark.anyio
@pytest.mark.parametrize("encoding", ["ascii", "ascii:surrogateescape"])
async def test_code_that_prints_what_its_workers_output_lacks_goes_on(
    encoding: str, server: Served, client: Client
) -> None:
    """Its run failed with a UnicodeEncodeError, in a process of its own in any encoding, else in the locale C."""
    environment = {"TREADLE_URL": server.url, "TREADLE_TOKEN": server.token or "", "PYTHONIOENCODING": encoding}
    command = [sys.executable, "-m", "treadle", "worker", "tests.worker.jobs"]
    worker = await asyncio.create_subprocess_exec(*command, env=os.environ | environment, stdout=subprocess.DEVNULL)
    try:
        for task in (jobs.speaks_letters, jobs.speaks_letters_in_a_process):
            handle = await client.submit(task.bind())
            await handle.result(timeout=60)
            assert [line.message for line in await client.logs(handle.id)] == ["Żółw é 😀"]
    finally:
        worker.send_signal(signal.SIGTERM)
        await worker.wait()
