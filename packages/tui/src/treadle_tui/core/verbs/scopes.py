"""The panes and screens in which keys work, and their titles."""

from typing import Literal, TypeAlias, get_args

Scope: TypeAlias = Literal[
    "queues",
    "tasks",
    "workers",
    "targets",
    "schedules",
    "limits",
    "failures",
    "events",
    "attention",
    "logs",
    "detail",
    "flow",
    "everywhere",
]
"""A pane or screen in which keys work, or `everywhere`."""

LISTS: tuple[Scope, ...] = tuple(scope for scope in get_args(Scope) if scope not in {"detail", "everywhere"})
"""The scopes with a highlighted row."""

SCOPE_TITLES: dict[Scope, str] = {
    **{scope: scope.capitalize() for scope in get_args(Scope)},
    "detail": "A task",
    "flow": "A flow",
}
"""Titles, in the order of the help and the documentation."""


def on(*scopes: Scope) -> frozenset[Scope]:
    """Return the scopes in the form that `Action` takes."""
    return frozenset(scopes)
