"""Numbers of the command line: finite ones, for every comparison with nan is false, so that it passes each bound."""

from math import isfinite
from typing import Any

import click


class Number(click.FloatRange):
    """A finite number within bounds."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number; fail for nan and the infinities, and out of bounds."""
        number = float(super().convert(value, param, ctx))
        if not isfinite(number):
            self.fail(f"{value!r} is no finite number", param, ctx)
        return number
