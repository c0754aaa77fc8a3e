"""What is done outside of the screen: programs in this terminal, its clipboard and its notifications."""

import asyncio
import os
import shlex
import shutil
import signal
import tempfile
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from textual.app import App, SuspendNotSupported

from treadle_tui.core.draw.text import clean
from treadle_tui.core.setup.app_state import Notify

EDITORS = ("VISUAL", "EDITOR")
PAGERS = ("PAGER",)
USUAL: Mapping[Sequence[str], Sequence[str]] = {EDITORS: ("nano", "vi"), PAGERS: ("less", "more")}
"""What is taken where the environment names none."""


class ExternalError(Exception):
    """A program that can't be run here: what is wrong, and what to do."""


def program(names: Sequence[str], environ: Mapping[str, str] = os.environ) -> list[str]:
    """Return the command of the first of these variables that is set, or the usual one.

    Raises `ExternalError` when there is none, or it can't be read.
    """
    for name in names:
        if value := environ.get(name, "").strip():
            try:
                return shlex.split(value)
            except ValueError as error:
                raise ExternalError(f"{name} can't be read as a command: {error}") from None
    found = next((path for usual in USUAL[names] if (path := shutil.which(usual))), None)
    if found is None:
        raise ExternalError(f"no {' or '.join(USUAL[names])} here: set {names[0]} to a program")
    return [found]


async def edit(app: App[None], text: str, *, name: str) -> str:
    """Let the reader change a text in an editor, and return it. Raises `ExternalError`."""
    command = program(EDITORS)
    with _file(text, name) as path:
        await _run(app, [*command, str(path)])
        try:
            return await asyncio.to_thread(path.read_text, encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise ExternalError(f"what the editor left can't be read: {error}") from None


async def show(app: App[None], text: str, *, name: str, names: Sequence[str]) -> None:
    """Show a text in a program, which can't change it. Raises `ExternalError`."""
    command = program(names)
    with _file(text, name) as path:
        path.chmod(0o400)
        await _run(app, [*command, str(path)])


@contextmanager
def _file(text: str, name: str) -> Iterator[Path]:
    """Keep a text in a file that only this user can read, in a directory that goes with it."""
    with tempfile.TemporaryDirectory(prefix="treadle-") as directory:
        path = Path(directory) / name
        path.touch(mode=0o600)
        path.write_text(text, encoding="utf-8")
        yield path


async def _run(app: App[None], command: Sequence[str]) -> None:
    try:
        # The feed goes on meanwhile and the model stays true; only nothing is drawn.
        with app.batch_update(), app.suspend(), _interrupts_are_the_programs():
            failure = await _ran(command)
    except SuspendNotSupported:
        raise ExternalError("this terminal can't be lent to another program") from None
    if failure is not None:
        raise ExternalError(failure)


async def _ran(command: Sequence[str]) -> str | None:
    """Run a program, and return what went wrong: raised, it would leave the dashboard suspended for good."""
    try:
        process = await asyncio.create_subprocess_exec(*command)
    except (OSError, ValueError) as error:
        return f"can't start {command[0]}: {getattr(error, 'strerror', None) or error}"
    try:
        code = await process.wait()
    finally:
        await _end(process)
    return f"{command[0]} ended with {code}: nothing was taken over" if code else None


async def _end(process: asyncio.subprocess.Process) -> None:
    """Leave no program behind that reads the same keys as the shell, of whoever leaves the dashboard meanwhile.

    A dashboard that ends cancels for its screen, for itself and for its loop: once is not all.
    """
    if process.returncode is None:
        process.terminate()
    while process.returncode is None:
        try:
            await process.wait()
        except asyncio.CancelledError:
            process.kill()


@contextmanager
def _interrupts_are_the_programs() -> Iterator[None]:
    # ctrl+c reaches everyone at this terminal, and is meant for the program. Ignoring it would be inherited.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def clipboard_sequences(text: str, environ: Mapping[str, str] = os.environ) -> list[str]:
    """Return what puts a text into the clipboard: OSC 52, and within tmux or screen wrapped, for the terminal behind.

    tmux takes the plain one with `set-clipboard on`, and passes the wrapped one on with `allow-passthrough on`.
    """
    plain = f"\x1b]52;c;{b64encode(text.encode()).decode()}\a"
    wrapped = _through(plain, environ)
    return [plain, wrapped] if wrapped.startswith("\x1bPtmux;") else [wrapped]


def _through(plain: str, environ: Mapping[str, str]) -> str:
    """Wrap a sequence so that tmux or screen, if the terminal is one of theirs, passes it on to the one behind."""
    term = environ.get("TERM", "")
    if environ.get("TMUX") or term.startswith("tmux"):
        return "\x1bPtmux;" + plain.replace("\x1b", "\x1b\x1b") + "\x1b\\"
    return "\x1bP" + plain + "\x1b\\" if term.startswith("screen") else plain


def copy(app: App[None], text: str) -> None:
    """Put a text into the terminal's clipboard."""
    app.copy_to_clipboard(text)
    driver = app._driver  # noqa: SLF001 - the only way to the terminal; Textual itself writes the plain sequence alone
    if driver is not None:
        for sequence in clipboard_sequences(text)[1:]:
            driver.write(sequence)


MOST_TOLD = 200
"""Characters of a notification."""


def notification_sequences(how: Notify, text: str, environ: Mapping[str, str] = os.environ) -> list[str]:
    """Return what tells a terminal of something: a bell, OSC 9 or OSC 777; within tmux or screen for the one behind.

    tmux passes it on with `allow-passthrough on`. A terminal that knows none of them does nothing.
    """
    text = clean(text, limit=MOST_TOLD)
    match how:
        case "off":
            return []
        case "bell":
            return ["\a"]
        case "osc9":
            return [_through(f"\x1b]9;{text}\x1b\\", environ)]
        case "osc777":
            return [_through(f"\x1b]777;notify;treadle;{text.replace(';', ',')}\x1b\\", environ)]


def notify(app: App[None], how: Notify, texts: Sequence[str]) -> None:
    """Tell the terminal of something; of several things at once in one sign."""
    driver = app._driver  # noqa: SLF001 - the only way to the terminal
    if driver is None or not texts:
        return
    more = f" (+{len(texts) - 1} more)" if len(texts) > 1 else ""
    for sequence in notification_sequences(how, texts[0] + more):
        driver.write(sequence)


async def copy_to_tmux(text: str) -> None:
    """Give a text to tmux, which as it comes lets nothing else through to the clipboard. Raises `ExternalError`."""
    if not os.environ.get("TMUX") or shutil.which("tmux") is None:
        return
    process = await asyncio.create_subprocess_exec(
        "tmux", "load-buffer", "-w", "-", stdin=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    _, said = await process.communicate(text.encode())
    if process.returncode:
        raise ExternalError(f"tmux did not take it: {said.decode(errors='replace').strip()}")
