"""What happens outside the screen: external programs, the clipboard and notifications."""

import asyncio
import os
import shlex
import shutil
import signal
import tempfile
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from textual.app import App, SuspendNotSupported

from treadle_tui.core.draw.text import clean
from treadle_tui.core.setup.app_state import Notify

EDITORS = ("VISUAL", "EDITOR")
PAGERS = ("PAGER",)
USUAL: Mapping[Sequence[str], Sequence[str]] = {EDITORS: ("nano", "vi"), PAGERS: ("less", "more")}
"""The programs that are tried if the environment names none."""


class ExternalError(Exception):
    """An external program can't be run or has failed: what is wrong, and what to do."""


def program(names: Sequence[str], environ: Mapping[str, str] = os.environ) -> list[str]:
    """Return the command in the first of these variables that is set, or else the first usual program found.

    Raises `ExternalError` if there is none, or if the variable is not a valid command.
    """
    for name in names:
        if value := environ.get(name, "").strip():
            try:
                return shlex.split(value)
            except ValueError as error:
                raise ExternalError(f"{name} is not a valid command: {error}") from None
    found = next((path for usual in USUAL[names] if (path := shutil.which(usual))), None)
    if found is None:
        raise ExternalError(f"no {' or '.join(USUAL[names])} found: set {names[0]} to a program")
    return [found]


async def edit(app: App[None], text: str, *, name: str) -> str:
    """Let the user edit a text in their editor, and return the result. Raises `ExternalError`."""
    command = program(EDITORS)
    with _file(text, name) as path:
        await _run(app, [*command, str(path)])
        try:
            return await asyncio.to_thread(path.read_text, encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise ExternalError(f"can't read what the editor saved: {error}") from None


async def show(app: App[None], text: str, *, name: str, names: Sequence[str]) -> None:
    """Show a text read-only in an external program. Raises `ExternalError`."""
    command = program(names)
    with _file(text, name) as path:
        path.chmod(0o400)
        await _run(app, [*command, str(path)])


@contextmanager
def _file(text: str, name: str) -> Iterator[Path]:
    """Yield a file that holds the text and that only this user can read; it is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="treadle-") as directory:
        path = Path(directory) / name
        path.touch(mode=0o600)
        path.write_text(text, encoding="utf-8")
        yield path


async def _run(app: App[None], command: Sequence[str]) -> None:
    try:
        # The feed keeps updating the model meanwhile; only drawing is suspended.
        with app.batch_update(), app.suspend(), _interrupts_ignored():
            failure = await _run_program(command)
    except SuspendNotSupported:
        raise ExternalError("this terminal can't run another program") from None
    if failure is not None:
        raise ExternalError(failure)


async def _run_program(command: Sequence[str]) -> str | None:
    """Run a program and return what went wrong. An exception here would leave the dashboard suspended for good."""
    try:
        process = await asyncio.create_subprocess_exec(*command)
    except (OSError, ValueError) as error:
        return f"can't start {command[0]}: {getattr(error, 'strerror', None) or error}"
    try:
        code = await process.wait()
    finally:
        await _end(process)
    return f"{command[0]} exited with code {code}: nothing was changed" if code else None


async def _end(process: asyncio.subprocess.Process) -> None:
    """End the program if it still runs, so that it doesn't compete with the shell for keys once the dashboard has left.

    The wait may be cancelled more than once: a closing dashboard cancels for its screen, for itself and for its loop.
    """
    if process.returncode is None:
        process.terminate()
    while process.returncode is None:
        try:
            await process.wait()
        except asyncio.CancelledError:
            with suppress(ProcessLookupError):  # it may just have ended
                process.kill()


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    # ctrl+c reaches every process on this terminal and is meant for the program. SIG_IGN would be inherited by it.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def clipboard_sequences(text: str, environ: Mapping[str, str] = os.environ) -> list[str]:
    """Return the sequences that set the clipboard: OSC 52, and within tmux or screen also one for the terminal around.

    tmux accepts the plain sequence with `set-clipboard on` and passes on the wrapped one with `allow-passthrough on`.
    """
    plain = f"\x1b]52;c;{b64encode(text.encode()).decode()}\a"
    wrapped = _through(plain, environ)
    return [plain] if wrapped == plain else [plain, wrapped]


def _through(plain: str, environ: Mapping[str, str]) -> str:
    """Wrap a sequence, if this is tmux or screen, so that it is passed on to the terminal around it."""
    term = environ.get("TERM", "")
    if environ.get("TMUX") or term.startswith("tmux"):
        return "\x1bPtmux;" + plain.replace("\x1b", "\x1b\x1b") + "\x1b\\"
    return "\x1bP" + plain + "\x1b\\" if term.startswith("screen") else plain


def copy(app: App[None], text: str) -> None:
    """Copy a text to the terminal's clipboard."""
    app.copy_to_clipboard(text)
    driver = app._driver  # noqa: SLF001 - the only way to the terminal; Textual itself writes only the plain sequence
    # In a browser, whatever is around the serving process is not the user's.
    if driver is not None and not app.is_web:
        for sequence in clipboard_sequences(text)[1:]:
            driver.write(sequence)


MOST_CHARACTERS = 200
"""The most characters in a notification."""


def notification_sequences(how: Notify, text: str, environ: Mapping[str, str] = os.environ) -> list[str]:
    """Return the sequences that notify the terminal: a bell, OSC 9 or OSC 777, wrapped within tmux or screen.

    tmux passes them on with `allow-passthrough on`. A terminal that doesn't know them ignores them.
    """
    text = clean(text, limit=MOST_CHARACTERS)
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
    """Notify the terminal of these texts, with one notification for all of them."""
    driver = app._driver  # noqa: SLF001 - the only way to the terminal
    if driver is None or not texts:
        return
    more = f" (+{len(texts) - 1} more)" if len(texts) > 1 else ""
    for sequence in notification_sequences(how, texts[0] + more):
        driver.write(sequence)


async def copy_to_tmux(text: str) -> None:
    """Copy a text to tmux's clipboard, since by default tmux passes no other sequence on. Raises `ExternalError`."""
    if not os.environ.get("TMUX") or shutil.which("tmux") is None:
        return
    process = await asyncio.create_subprocess_exec(
        "tmux", "load-buffer", "-w", "-", stdin=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    _, said = await process.communicate(text.encode())
    if process.returncode:
        raise ExternalError(f"tmux did not accept the text: {said.decode(errors='replace').strip()}")
