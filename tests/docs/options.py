"""Writes the table of options in docs/tasks.md from what the wire says of them: `python -m tests.docs.options`."""

import re
from collections.abc import Iterator
from pathlib import Path

from treadle import Settings
from treadle.wire.options import OF_JOB, OPTIONS, Option

PAGE = Path(__file__).parents[2] / "docs/tasks.md"

BEGIN, END = "<!-- options: begin -->\n", "<!-- options: end -->\n"

_AT_ONCE = {"delay": "at once", "scheduled_at": "at once"}


def table() -> str:
    """Return the table, a line for each option."""
    return "".join(f"{line}\n" for line in _lines())


def _lines() -> Iterator[str]:
    yield "| option | what it is | unless given | in `@task` |"
    yield "|---|---|---|---|"
    for name, option in OPTIONS.items():
        yield f"| `{name}` | {option.help} | {_default(name, option)} | {'yes' if name in OF_JOB else ''} |"


def _default(name: str, option: Option) -> str:
    """Return what holds of a task of the SDK, whose settings say more than the server's."""
    if name in Settings.model_fields and Settings.model_fields[name].default is not None:
        return f"{Settings.model_fields[name].default:g}"
    if option.default is None:
        return option.null or _AT_ONCE[name]
    return f"`{option.default}`" if isinstance(option.default, str) else f"{option.default:g}"


def page() -> str:
    """Return the page with the table in its place."""
    return re.sub(f"(?<={BEGIN}).*(?={END})", table().replace("\\", r"\\"), PAGE.read_text(), flags=re.DOTALL)


if __name__ == "__main__":
    PAGE.write_text(page())
