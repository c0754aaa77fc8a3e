"""What an examination is made of: checks that look at something, and what they find; `treadle doctor` makes it.

A distribution adds checks by the entry point `treadle.checks`: a function without arguments that returns a list of
`Check`.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, Union

Grade = Literal["ok", "warn", "fail"]
"""`warn`: it works, and somebody should look. `fail`: something does not work, or what was acknowledged may be lost."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found."""

    check: str
    """What was looked at, in a word or two."""
    grade: Grade
    detail: str
    """What was seen, and what that means."""
    advice: str = ""
    """What to do; empty where all is well."""


@dataclass(frozen=True, slots=True)
class Check:
    """Looks at one thing and changes nothing. What it returns beside findings are checks that its success allows.

    A synchronous `look` is called in a thread of its own, an asynchronous one in the loop; neither is waited for longer
    than the examination's limit.
    """

    name: str
    look: Callable[[], "Seen | Awaitable[Seen]"]


Seen: TypeAlias = Sequence[Union[Finding, "Check"]]
