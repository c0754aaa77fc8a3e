"""Child processes that run tasks and can be killed: started when needed, and reused when they ended well."""

import asyncio
import errno
import os
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from treadle.errors import DefinitionError, TreadleError
from treadle.isolation import pipes
from treadle.isolation.lease_killer import LeaseKiller
from treadle.isolation.threads import lacking
from treadle.settings import SECRET_VARIABLES
from treadle.tasks.definition import Task
from treadle.values import said_by

LEAVING = 2.0
"""Seconds that an idle child has for its modules' exit handlers."""

LOOK = 0.5
"""Seconds between two looks at whether a process has ended of which the loop says nothing."""

SHORT = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE})
"""Errors of a system that is out of processes, memory or descriptors."""


class ChildDied(TreadleError):
    """A child process ended without reporting how its task ended: it was killed, ran out of memory, or crashed."""


class Child:
    """One child process, which runs one task at a time."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        lease_killer: LeaseKiller,
    ) -> None:
        self._process = process
        self._reader = reader
        self._writer = writer
        self.lease_killer = lease_killer
        """Kills the child when its lease ends and its worker is frozen, or its task has a target."""
        self._waiting: asyncio.Future[int | None] = asyncio.ensure_future(process.wait())

    @classmethod
    async def start(cls) -> "Child":
        """Start a Python of the same kind, with the same paths. Raises `OSError` if the system can't start one."""
        ours, theirs = socket.socketpair()
        with ExitStack() as undone:
            undone.callback(ours.close)
            with theirs:
                lease_killer = LeaseKiller()
                undone.callback(lease_killer.close)
                try:
                    process = await asyncio.create_subprocess_exec(
                        sys.executable,
                        "-P",
                        "-m",
                        "treadle.isolation.child",
                        str(theirs.fileno()),
                        str(lease_killer.reader),
                        *_paths(),
                        pass_fds=[theirs.fileno(), lease_killer.reader],
                        stdin=asyncio.subprocess.DEVNULL,
                        env=_environment(),
                        # A group of its own: killing it ends what the task started too, and Ctrl-C reaches only the
                        # worker.
                        start_new_session=True,
                    )
                finally:
                    lease_killer.handed_over()
            try:
                reader, writer = await asyncio.open_connection(sock=ours)
            except BaseException:
                # The caller is gone, and nobody else knows of the process, which may have ended too.
                with suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
                raise
            undone.pop_all()
        return cls(process, reader, writer, lease_killer)

    @property
    def lives(self) -> bool:
        """Whether the process has not ended; an idle one may have been killed, such as by a kernel short of memory."""
        return not (self._waiting.done() or _has_ended(self._process.pid))

    async def run(self, message: pipes.Message, on_message: Callable[["Child", pipes.Message], None]) -> dict[str, Any]:
        """Send the child a run and return its ending; `on_message` is called with every message before that.

        Raises `ChildDied` when the process ends before the run does; the message names its exit code or signal. Raises
        `Lacking` when the process lacked the resources to begin.
        """
        self.send(message)
        watching = asyncio.create_task(self._end_with_process())
        try:
            while True:
                answer = await pipes.read(self._reader)
                if "lacks" in answer:
                    raise lacking("a process", answer["lacks"])
                if "end" in answer:
                    ending: dict[str, Any] = answer["end"]
                    return ending
                on_message(self, answer)
        except EOFError:
            code = await self._end()
            raise ChildDied(f"the task's process ended with {_said(code)} before the task did") from None
        finally:
            watching.cancel()

    async def _end_with_process(self) -> None:
        """When the child ends, kill what it has forked, which would keep the connection open and hide its end."""
        await self._end()
        self.kill()

    async def _end(self) -> int | None:
        """Wait for the end of the process, and return its exit code; None if that can't be known any more.

        uvloop hears of it by SIGCHLD, and of nothing once a task's code has set what that signal does.
        """
        while not (await asyncio.wait({waiting := self._waiting}, timeout=LOOK))[0]:
            if not _has_ended(self._process.pid):
                continue
            # The loop may be just about to hear of it.
            if not (await asyncio.wait({waiting}, timeout=LOOK))[0] and waiting is self._waiting:
                self._waiting = asyncio.get_running_loop().create_future()
                self._waiting.set_result(_exit_code(self._process.pid))
                waiting.cancel()
        return self._waiting.result()

    def send(self, message: pipes.Message) -> None:
        """Send the child a message; does nothing if it is gone."""
        if not self._writer.is_closing():  # uvloop raises then
            self._writer.write(pipes.encode(message))

    def kill(self) -> None:
        """Kill the child, and what it started, at once; may be called from any thread."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    async def leave(self) -> None:
        """Let an idle child exit as programs do, so that it sends what it has buffered, such as spans or log lines."""
        try:
            self.send({"leave": True})
            with suppress(TimeoutError):
                async with asyncio.timeout(LEAVING):
                    await self._end()
        finally:
            await self.close()

    async def close(self) -> None:
        """Kill the child and wait for its end."""
        self.kill()
        self.lease_killer.close()
        self._writer.close()
        await self._end()
        with suppress(OSError):
            await self._writer.wait_closed()


def _has_ended(number: int) -> bool:
    """Return whether a child of this process has ended, which stays so: nobody is kept from waiting for it."""
    try:
        return os.waitid(os.P_PID, number, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True
    except AttributeError:  # as on macOS before Python 3.13
        return False


def _exit_code(number: int) -> int | None:
    """Take note of a child's end, so that it does not stay a zombie; None if the system has kept no exit code."""
    try:
        return os.waitstatus_to_exitcode(os.waitpid(number, os.WNOHANG)[1])
    except ChildProcessError:
        return None


def _said(code: int | None) -> str:
    if code is None:
        return "an unknown exit code (code in the worker ignores SIGCHLD)"
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def _environment() -> dict[str, str]:
    """Return the environment of a child: the worker's, without its token and keys, which the code does not need.

    The child starts without the current directory in its path, where a file may shadow a module of the standard
    library. It takes on the worker's paths, including that directory, before it imports the worker's modules.
    """
    ours = {name: value for name, value in os.environ.items() if name.upper() not in SECRET_VARIABLES}
    here = _here()
    # The location of this package must be among them, even if it is the current directory.
    starts = dict.fromkeys([*(path for path in _paths() if path != here), str(Path(__file__).parents[1])])
    return ours | {"PYTHONPATH": os.pathsep.join(starts)}


def _paths() -> list[str]:
    """Return this process's module search path, with the current directory last, where it shadows nothing."""
    here = _here()
    return [path for path in dict.fromkeys([*(path or here for path in sys.path), here]) if path]


def _here() -> str:
    """Return the current directory; empty if it was removed, as an old release's is when a new one is deployed."""
    try:
        return str(Path.cwd())
    except FileNotFoundError:
        return ""


class Children:
    """The worker's child processes; idle ones wait for the next task."""

    def __init__(self) -> None:
        self._idle: list[Child] = []
        self._all: set[Child] = set()
        self._is_closed = False

    async def take(self) -> Child:
        """Return an idle child, or start one; the caller gives it back, or ends it.

        Raises `ChildDied` when all were ended meanwhile, and `Lacking` if the system can't start one.
        """
        while self._idle:
            child = self._idle.pop()
            if child.lives:
                return child
            await self.end(child)
        try:
            child = await Child.start()
        except OSError as error:
            raise lacking("a process", said_by(error), is_short=error.errno in SHORT) from error
        self._all.add(child)
        if self._is_closed:
            await self.end(child)
            raise ChildDied("the worker ended before the task's process had started")
        return child

    def give_back(self, child: Child) -> None:
        """Keep a child whose task ended well for the next one."""
        self._idle.append(child)

    async def end_idle(self) -> bool:
        """End the idle children, because others need their resources; return whether there were any."""
        idle, self._idle = self._idle, []
        self._all -= set(idle)
        await asyncio.gather(*(child.leave() for child in idle))
        return bool(idle)

    async def end(self, child: Child) -> None:
        """End a child that was killed or left its task unfinished."""
        self._all.discard(child)
        await child.close()

    async def close(self) -> None:
        """End all children, and those that are starting as soon as they have started."""
        self._is_closed = True
        busy, self._all = self._all.difference(self._idle), set()
        await asyncio.gather(self.end_idle(), *(child.close() for child in busy))


@lru_cache(maxsize=1000)
def _home_of(task: Task[..., Any]) -> str | None:
    """Return the module that has a task at its top level: its function's own, or another that imported it."""
    own = task.function.__module__
    return next((name for name in [own, *list(sys.modules)] if any(one is task for one in _values_of(name))), None)


def _values_of(module: str) -> list[object]:
    return list(getattr(sys.modules.get(module), "__dict__", {}).values())


def origin_of(task: Task[..., Any]) -> dict[str, str]:
    """Return where a child process finds a task: a module's name, or the path of a script, directory or archive.

    Raises `DefinitionError` for a function that can't be imported.
    """
    name = task.function.__qualname__
    home = None if "<locals>" in name else _home_of(task)
    if home is None:
        inside = "another function" if "<locals>" in name else "a class, or is not a variable of its module"
        raise DefinitionError(
            f"{name} runs in a process (by isolation='process', or since it has a target) but is defined in {inside},"
            " where a child process can't find it: move it to its module's top level"
        )
    if home != "__main__":
        return {"module": home}
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    if spec is not None and spec.name != "__main__":
        return {"module": spec.name}
    path = Path(getattr(main, "__file__", None) or "")
    # For `python directory` and `python archive.pyz`, `__file__` is the file within, and an archive is no directory.
    found = path.parent if spec is not None else path
    if path.name in {"", "<stdin>"} or not found.exists():
        raise DefinitionError(
            f"{task.full_name} runs in a process (by isolation='process', or since it has a target) but was typed in:"
            " move it into a module"
        )
    return {"path": str(found.resolve())}
