"""A `JobManager` that serves by itself: its own threads claim, run and beat until a signal ends it.

It prints a JSON line for whatever happens, and waits for a line on its standard input before each task's end.
"""

import json
import logging
import sys
import threading
from typing import Any

from zndraw_joblib import ClaimedTask, JobManager

from api import EXTENSIONS, Api

_printing = threading.Lock()


def say(event: str, **fields: Any) -> None:
    with _printing:
        print(json.dumps({"event": event, **fields}), flush=True)


class Telling(logging.Handler):
    """Prints what the package logs."""

    def emit(self, record: logging.LogRecord) -> None:
        say("log", level=record.levelname, text=record.getMessage())


def execute(task: ClaimedTask[Any]) -> None:
    say("begun", task=task.task_id)
    sys.stdin.readline()
    result = task.extension.run(None, **task.run_kwargs)
    say("ran", task=task.task_id, result=result)


def main() -> None:
    url, token, room = sys.argv[1:4]
    log = logging.getLogger("zndraw_joblib")
    log.addHandler(Telling(logging.WARNING))
    with JobManager(Api(url, token), execute=execute, heartbeat_interval=0.1, polling_interval=0.1) as manager:
        for extension in EXTENSIONS.values():
            manager.register(extension, room=room)
        say("serving", worker=str(manager.worker_id))
        manager.wait()
    say("ended")


if __name__ == "__main__":
    main()
