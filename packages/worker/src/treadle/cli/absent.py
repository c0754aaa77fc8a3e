"""What is not installed, and the sentence that says what to install."""

from importlib.util import find_spec

import click

ELSEWHERE = {"migrate": "treadle-server", "server": "treadle-server", "watch": "treadle-tui"}
"""Commands that other distributions bring, and which does."""


class NotInstalled(click.UsageError):
    """A command needs a distribution that is not installed."""

    def __init__(self, what: str, distribution: str) -> None:
        super().__init__(f"{what} needs {distribution}, which is not installed: pip install {distribution}")


def require_server(what: str) -> None:
    """Raise `NotInstalled` unless treadle-server is there; `what` is the command that starts one."""
    if find_spec("treadle_server") is None:
        raise NotInstalled(what, "treadle-server")
