"""The results of the tasks that a run's task waited for, as its code sees them and as its arguments."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from treadle.errors import CantDecrypt, InvalidArguments

Raw = dict[str, Any]

UNOPENED = "is_unopened"
"""The key that marks a dependency whose result is encrypted and that no key could open."""


def each(claim: Raw) -> Iterator[Raw]:
    """Yield every dependency that a claim carries."""
    for said in (claim.get("dependencies") or {}).values():
        yield from said if isinstance(said, list) else [said]


def replaced(claim: Raw, change: Callable[[Raw], Raw]) -> Raw:
    """Return a copy of a claim in which each dependency is replaced by `change` of it."""
    found = claim.get("dependencies")
    if not found:
        return claim
    changed = {
        name: [change(one) for one in said] if isinstance(said, list) else change(said) for name, said in found.items()
    }
    return {**claim, "dependencies": changed}


class Results(dict[str, Any]):
    """Results by name, whose `KeyError` says why a name is missing."""

    def __missing__(self, name: str) -> Any:
        known = f"waited for {', '.join(map(repr, self))} alone" if self else "waited for nothing"
        raise KeyError(f"{name!r}: this task {known}, or its dependency has been removed since")


def results(claim: Raw) -> Results:
    """Return the results by name; None for a task that did not complete. Raises `CantDecrypt`."""
    return Results({name: _result(said) for name, said in (claim.get("dependencies") or {}).items()})


def _result(said: Raw | list[Raw]) -> Any:
    if isinstance(said, list):
        return [_result(one) for one in said]
    if said.get(UNOPENED):
        raise CantDecrypt(f"the result of task {said['id']} is encrypted, and none of the keys here can decrypt it")
    return said.get("result")


def payload_of(claim: Raw) -> Mapping[str, Any]:
    """Return the payload, completed with the arguments that are results of other tasks.

    Raises `InvalidArguments` if one of those tasks did not complete and so has no result, and `CantDecrypt`.
    """
    arguments: dict[str, str] | None = claim.get("arguments_from")
    payload: Mapping[str, Any] = claim["payload"]
    if not arguments:
        return payload
    found = claim.get("dependencies") or {}
    for argument, name in arguments.items():
        if name not in found:
            raise InvalidArguments(
                f"{argument} is the result of the dependency {name!r}, which has been removed since: submit both again"
            )
        for one in found[name] if isinstance(found[name], list) else [found[name]]:
            if one["status"] != "completed":
                raise InvalidArguments(
                    f"{argument} is the result of task {one['id']}, which is {one['status']} and has none"
                )
    return {**payload, **{argument: _result(found[name]) for argument, name in arguments.items()}}
