"""The parts of an examination by `treadle doctor`: checks, each of which looks at something, and their findings.

A distribution adds checks by the entry point `treadle.checks`: a function without arguments that returns a list of
`Check`.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, Union

Grade = Literal["ok", "warn", "fail"]
"""`warn`: it works, but needs attention. `fail`: something does not work, or acknowledged work may be lost."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The finding of one check."""

    check: str
    """What was looked at, in a word or two."""
    grade: Grade
    detail: str
    """What was seen, and what that means."""
    advice: str = ""
    """What to do; empty if all is well."""


@dataclass(frozen=True, slots=True)
class Check:
    """A check of one thing, which changes nothing. Besides findings it may return further checks that it allows.

    A synchronous `look` is called in a thread of its own, an asynchronous one in the event loop; neither is waited for
    beyond the examination's time limit.
    """

    name: str
    look: Callable[[], "Seen | Awaitable[Seen]"]


Seen: TypeAlias = Sequence[Union[Finding, "Check"]]
