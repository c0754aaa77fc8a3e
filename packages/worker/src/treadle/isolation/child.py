"""The child process, which runs one task after another for its worker, and dies with it."""

import asyncio
import logging
import os
import socket
import sys
import threading
from _thread import start_new_thread
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from tempfile import NamedTemporaryFile
from typing import Any

from treadle import logs, tracing
from treadle.charset import escape_unencodable_output
from treadle.errors import BadValue, ConnectionFailed, error_for
from treadle.forks import process_number
from treadle.isolation import pipes
from treadle.isolation.copies import end_copy
from treadle.isolation.lease_killer import end_group, kill_at_the_end
from treadle.isolation.loading import load
from treadle.isolation.output import Output, captured, current, line_by_line
from treadle.loops import hear_interrupts
from treadle.tasks.awaitables import Credential, Done
from treadle.tasks.content import Content, Uploading
from treadle.tasks.context import Context, check_end, has_running_steps
from treadle.tasks.definition import Task
from treadle.tasks.dependencies import payload_of
from treadle.tasks.endings import Ending, completed, raised
from treadle.tasks.registry import collect
from treadle.tasks.verdicts import legible
from treadle.values import said_by
from treadle.wire.artifacts import ArtifactItem
from treadle.wire.log_lines import bound
from treadle.wire.problems import Problem
from treadle.wire.runs import Level


class ParentLink:
    """The socket to the worker, read by a thread; when it closes, this process ends."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._writing = threading.Lock()
        self.runs: SimpleQueue[pipes.Message | None] = SimpleQueue()
        """The runs to carry out; None: there are no more, and the process is to exit."""
        self._numbers = count()
        self._asked: dict[int, SimpleQueue[pipes.Message]] = {}
        """The queues in which callers wait for answers."""
        self.running: Running | None = None
        start_new_thread(self._read, ())

    def send(self, message: pipes.Message) -> None:
        """Write one message as a whole."""
        data = pipes.encode(message)
        with self._writing:
            self._sock.sendall(data)

    def ask(self, run: list[Any], method: str, *args: Any) -> Any:
        """Have the worker call a method of the run's port, and block until it has answered.

        Raises a `ProblemError`, such as `StaleRun` for a run that is over, `ConnectionFailed`, and `BadValue` for any
        other error.
        """
        number, answered = next(self._numbers), SimpleQueue[pipes.Message]()
        self._asked[number] = answered
        self.send({"ask": number, "of": run, "method": method, "args": args})
        answer = answered.get()
        if "problem" in answer:
            raise error_for(Problem.model_validate(answer["problem"]))
        if "failed" in answer:
            raise ConnectionFailed(answer["failed"])
        if "bad" in answer:
            raise BadValue(answer["bad"])
        return answer["ok"]

    def _read(self) -> None:
        try:
            while True:
                message = pipes.receive(self._sock)
                if "run" in message:
                    self.runs.put(message)
                elif "answered" in message:
                    self._asked.pop(message["answered"]).put(message)
                elif "leave" in message:
                    self.runs.put(None)
                elif self.running is not None:
                    self.running.stop()
        except (EOFError, OSError):
            # The worker is gone: nobody can take the result, and the task will run again elsewhere.
            end_group()


class ParentPort:
    """A context's port to the worker.

    Every message names its run, because a thread that outlives its run may send one while the next run is under way.
    """

    def __init__(self, parent: ParentLink, run: list[Any]) -> None:
        self._parent = parent
        self._run = run

    def _tell(self, method: str, *args: Any) -> None:
        self._parent.send({"tell": method, "of": self._run, "args": args})

    def _ask(self, method: str, *args: Any) -> Any:
        return self._parent.ask(self._run, method, *args)

    def progress(self, share: float | None, message: str | None) -> None:
        """Send the worker the run's progress: a share from 0 to 1, a message, or None for either."""
        self._tell("progress", share, message)

    def log(self, message: str, level: Level) -> None:
        """Send the worker a line for the task's log, as it is; the caller has already escaped it."""
        self._tell("log", message, level)

    def spend(self, total: float) -> None:
        """Send the run's total usage."""
        self._tell("spend", total)

    def save(self, checkpoint: Any) -> Awaitable[None]:
        """Send a checkpoint and block until it is stored, in async code too: nothing else runs here.

        Raises the `ProblemError` with which it is refused, and `BadValue` for one that can't be kept.
        """
        return Done(self._ask("save", checkpoint))

    def credentials(self) -> Awaitable[str]:
        """Ask for a credential of the run and block until it comes. Raises a `ProblemError`, such as `StaleRun`."""
        return Credential(self._ask("credentials"))

    def kept_steps(self) -> Awaitable[list[dict[str, Any]]]:
        """Read the steps that the task keeps, and block until they come."""
        return Done(self._ask("kept_steps"))

    def keep_step(self, step: dict[str, Any]) -> Awaitable[None]:
        """Keep a step, and block until it is stored."""
        return Done(self._ask("keep_step", step))

    def receive(self, step: dict[str, Any]) -> Awaitable[dict[str, Any] | None]:
        """Receive a message by a step; block until it is known whether one waits."""
        return Done(self._ask("receive", step))

    def upload(self, content: Content) -> Uploading:
        """Have the worker, which has the token, upload a file, and block until it is stored, in async code too.

        Raises the `ProblemError` with which it is refused, and `ConnectionFailed` for any other error.
        """
        with _on_disk(content.data) as path:
            item = self._ask("upload_file", str(path), content.name, content.content_type)
        return Uploading(ArtifactItem.model_validate(item))


@contextmanager
def _on_disk(data: bytes | Path) -> Iterator[Path]:
    """Provide a file with the bytes, because only small messages go through the pipe."""
    if isinstance(data, Path):
        yield data
        return
    with NamedTemporaryFile(prefix="treadle-") as file:
        file.write(data)
        file.flush()
        yield Path(file.name)


class Running:
    """The task that is running now, which the reading thread can stop."""

    def __init__(
        self, task: Task[..., Any], claim: dict[str, Any], context: Context, arguments: dict[str, Any]
    ) -> None:
        self._task = task
        self._claim = claim
        self._context = context
        self._arguments = arguments
        self._loop: asyncio.AbstractEventLoop | None = None
        self._code: asyncio.Task[Any] | None = None
        self._raised: BaseException | None = None

    def stop(self) -> None:
        """Tell the code to stop: its context, and its coroutine if it is one."""
        self._context.stop()
        if self._loop is not None and self._code is not None:
            self._loop.call_soon_threadsafe(self._code.cancel)

    def run(self) -> Ending:
        """Call the function and return its ending."""
        ours = process_number()
        try:
            result = self._call()
            end_copy(ours)
            return completed(result, self._task.signature.returns)
        except BaseException as error:  # noqa: BLE001 - whatever the task raised is its end, SystemExit too
            end_copy(ours)
            return raised(legible(error), self._task.verdicts)

    def _call(self) -> Any:
        first = (self._context,) if self._task.signature.wants_context else ()
        if not self._task.is_async:
            result = self._task.function(*first, **self._arguments)
            check_end(self._claim, self._context)
            return result
        result = asyncio.run(self._await(first))
        if self._raised is not None:
            raise self._raised
        return result

    async def _await(self, first: tuple[Context, ...]) -> Any:
        """Return what the code returns, and keep what it raises.

        At its end `asyncio.run` formats its task, with the exception that ended it. If the exception can't be
        formatted, the run failed for that reason instead, and so did every later run, because the handler of SIGINT
        stayed in place.
        """
        self._loop = asyncio.get_running_loop()
        self._code = asyncio.current_task()
        try:
            result = await self._task.function(*first, **self._arguments)
            # Checked here, because at the end of the loop coroutines that have not begun are cancelled as if by the
            # code.
            check_end(self._claim, self._context)
        except BaseException as error:  # noqa: BLE001 - raised again after the loop has ended
            self._raised = error
        else:
            return result


def main(fd: int, lease_killer: int, paths: list[str]) -> None:
    """Serve the worker at the other end of `fd` until it goes; `lease_killer` is the pipe of the lease killer.

    `paths` is the worker's module search path, which from here on is also that of the child and what it starts.
    """
    sys.path[:] = paths
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    os.register_at_fork(after_in_child=hear_interrupts)
    escape_unencodable_output()
    line_by_line()
    sock = socket.socket(fileno=fd)
    # Under gevent the worker makes sockets that do not block.
    sock.setblocking(True)
    try:
        # Threads that `threading` does not know of: only where it knows of one does gevent mend the locks that are held
        # while a task's module is imported that calls `patch_all`.
        start_new_thread(kill_at_the_end, (lease_killer,))
        parent = ParentLink(sock)
    except RuntimeError as error:
        # The system could start the process, but not its threads.
        sock.sendall(pipes.encode({"lacks": said_by(error)}))
        return
    found: dict[str, Task[..., Any]] = {}
    while (message := parent.runs.get()) is not None:
        parent.send({"end": _serve(parent, message, found)})


def _serve(parent: ParentLink, message: pipes.Message, found: dict[str, Task[..., Any]]) -> Ending:
    if "logs" in message:
        # Before the module is imported, as in the worker.
        logs.begin(**message["logs"])
    with bound(**message.get("bound", {})):
        return _run(parent, message, found)


def _run(parent: ParentLink, message: pipes.Message, found: dict[str, Task[..., Any]]) -> Ending:
    claim, name = message["run"], message["run"]["job_name"]
    try:
        if name not in found:
            found.update({task.full_name: task for task in collect([load(message["origin"])])})
        task = found[name]
        port = ParentPort(parent, [claim["id"], claim["run_id"]])
        context = Context(claim, port, urls=tuple(message["urls"]), is_async=task.is_async)
        parent.running = Running(task, claim, context, task.signature.arguments(payload_of(claim)))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a module may raise anything when it is imported
        return raised(legible(error))
    parent.send({"begun": True})
    try:
        with captured(wanted="output" in message), tracing.within(message.get("trace", {})):
            ending = _with_output(parent.running, port, message)
    finally:
        parent.running = None
    return ending | {"runs_on": True} if has_running_steps(context) else ending


def _with_output(running: Running, port: ParentPort, message: pipes.Message) -> Ending:
    """Run, and send what the code logs and prints; log levels are those of the worker."""
    if "output" not in message:
        return running.run()
    if not logging.getLogger().handlers[1:]:
        logging.getLogger().setLevel(message["output"])
    claim = message["run"]
    said = Output((claim["id"], claim["run_id"]), port.log)
    current.set(said)
    try:
        return running.run()
    finally:
        said.end()
        current.set(None)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
