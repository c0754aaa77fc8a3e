"""A blocking client among greenlets, and after its program's main thread has ended."""

import asyncio
import subprocess
import sys
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from treadle import system_threads

GREENLETS = Path(__file__).with_name("greenlets.py")
ENDED_MAIN = Path(__file__).with_name("ended_main.py")


def told_by(*program: str | Path, server: Any) -> subprocess.CompletedProcess[str]:
    """Return what a program has done whose client looks for the server by its name."""
    url = server.url.replace("127.0.0.1", "localhost")
    return subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", *program, url, server.token],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_client_among_greenlets_leaves_them_their_thread(treadle_server: Any) -> None:
    """Its event loop was the running one of every greenlet: Django refused all queries of gunicorn's gevent workers.

    These also took 20 s to stop, as the thread that had resolved the server's name was a greenlet of the client's.
    """
    told = told_by(GREENLETS, server=treadle_server)

    assert (told.stdout.splitlines(), told.returncode) == (
        [
            "None a loop of its own",
            "['pending']",
            "False True",
            "True True",
            "21",
            "0 threads of Python's pools",
        ],
        0,
    ), told.stderr


def test_a_worker_and_its_processes_run_among_greenlets(treadle_server: Any) -> None:
    """It ended with a traceback: uvloop takes signals in the system's main thread only, and did not find it.

    A process killed itself: its socket, made by gevent, did not block. Then its module could not be imported, as gevent
    mends the locks of imports only in a process of one thread.
    """
    told = told_by("-m", "tests.worker.greenlets_of_a_worker", server=treadle_server)

    assert (told.stdout, told.returncode) == ("[4, 6, 8]\n", 0), told.stderr


def test_a_client_finds_its_server_once_the_main_thread_has_ended(treadle_server: Any) -> None:
    """Names are resolved in a pool of threads, and Python's take nothing more from then on."""
    told = told_by(ENDED_MAIN, server=treadle_server)

    # Python 3.12.0 and 3.12.1 start no thread then, whoever asks.
    places = [] if (3, 12) <= sys.version_info < (3, 12, 2) else ["thread", "exit"]
    assert told.stdout.splitlines() == [f"{place} pending" for place in places], told.stderr


def test_what_was_cancelled_meanwhile_is_not_called_and_leaves_the_running_loop_as_it_is() -> None:
    """As the look-up of a name whose connection took too long: it ended in an error, and the loop was not known."""

    async def settled() -> bool:
        future: Future[None] = Future()
        future.cancel()
        system_threads._settle(future, lambda: called.append("called"))
        return asyncio.get_running_loop().is_running()

    called: list[str] = []

    assert asyncio.run(settled())
    assert called == []
