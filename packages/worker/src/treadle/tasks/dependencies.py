"""The results of the tasks that a run's task waited for: as its code sees them, and as its arguments."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from treadle.errors import CantDecrypt, InvalidArguments

Raw = dict[str, Any]

UNOPENED = "is_unopened"
"""Stands with a dependency whose result is encrypted and was opened by no key."""


def each(claim: Raw) -> Iterator[Raw]:
    """Return every dependency that a claim carries."""
    for said in (claim.get("dependencies") or {}).values():
        yield from said if isinstance(said, list) else [said]


def replaced(claim: Raw, change: Callable[[Raw], Raw]) -> Raw:
    """Return a claim with `change` of each dependency in its place; the claim that is given stays as it is."""
    found = claim.get("dependencies")
    if not found:
        return claim
    changed = {
        name: [change(one) for one in said] if isinstance(said, list) else change(said) for name, said in found.items()
    }
    return {**claim, "dependencies": changed}


class Results(dict[str, Any]):
    """Results by name, which say why there is none of a name."""

    def __missing__(self, name: str) -> Any:
        known = f"waited for {', '.join(map(repr, self))} alone" if self else "waited for nothing"
        raise KeyError(f"{name!r}: this task {known}, or what it waited for has been removed since")


def results(claim: Raw) -> Results:
    """Return the results by name; None for a task that did not complete. Raises `CantDecrypt`."""
    return Results({name: _result(said) for name, said in (claim.get("dependencies") or {}).items()})


def _result(said: Raw | list[Raw]) -> Any:
    if isinstance(said, list):
        return [_result(one) for one in said]
    if said.get(UNOPENED):
        raise CantDecrypt(f"what task {said['id']} returned is encrypted, and no key that is here opens it")
    return said.get("result")


def payload_of(claim: Raw) -> Mapping[str, Any]:
    """Return the payload with the results in it that are arguments.

    Raises `InvalidArguments` where one of these tasks did not complete: it has no result; and `CantDecrypt`.
    """
    arguments: dict[str, str] | None = claim.get("arguments_from")
    payload: Mapping[str, Any] = claim["payload"]
    if not arguments:
        return payload
    found = claim.get("dependencies") or {}
    for argument, name in arguments.items():
        if name not in found:
            raise InvalidArguments(
                f"{argument} is the result of what this task waited for as {name!r}, which has been removed since:"
                " submit both anew"
            )
        for one in found[name] if isinstance(found[name], list) else [found[name]]:
            if one["status"] != "completed":
                raise InvalidArguments(
                    f"{argument} is the result of task {one['id']}, which is {one['status']} and has none"
                )
    return {**payload, **{argument: _result(found[name]) for argument, name in arguments.items()}}
