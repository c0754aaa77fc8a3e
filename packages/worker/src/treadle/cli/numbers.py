"""Numbers on the command line, which must be finite: every comparison with nan is false, so it would pass any bound."""

from math import isfinite
from typing import Any

import click


class Number(click.FloatRange):
    """A finite number within bounds."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number; fail for nan, the infinities and numbers out of bounds."""
        number = float(super().convert(value, param, ctx))
        if not isfinite(number):
            self.fail(f"{value!r} is not a finite number", param, ctx)
        return number
