"""What is not installed, and the sentence that says what to install."""

import click

ELSEWHERE = {
    "bench": "treadle-bench",
    "copy": "treadle-server",
    "demo": "treadle-bench",
    "migrate": "treadle-server",
    "server": "treadle-server",
    "watch": "treadle-tui",
}
"""Commands that other distributions bring, and which does."""


class NotInstalled(click.UsageError):
    """A command needs a distribution that is not installed."""

    def __init__(self, what: str, distribution: str) -> None:
        super().__init__(f"{what} needs {distribution}, which is not installed: pip install {distribution}")
