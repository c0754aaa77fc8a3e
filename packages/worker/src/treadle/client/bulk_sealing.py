"""Bulk actions on tasks of which some are encrypted: values are encrypted for those, and plain for the others."""

import asyncio
from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError

from treadle.client.requests import Requester, query_of, tasks_path
from treadle.encryption.fields import sealed_words
from treadle.errors import TaskNotFound, ValidationFailed
from treadle.values import plain_request
from treadle.wire.bulk import BulkResult
from treadle.wire.fields import MOST_OF_REQUEST
from treadle.wire.filters import TaskFilter
from treadle.wire.pages import MOST_OF_PAGE
from treadle.wire.tasks import TaskItem
from treadle.wire.transitions import Action

_AT_ONCE = 100
"""How many tasks are looked up at once."""


async def split_by_encryption(client: Requester, which: dict[str, Any]) -> list[dict[str, Any]]:
    """Split a bulk action into several by ids, each for only encrypted or only plain tasks.

    Values that are already encrypted stay as they are. A request with neither ids nor a filter can't be split: it is
    returned as one action with everything encrypted, and the server says what is wrong with it. Raises
    `InvalidArguments`, and what `Client.call` raises.
    """
    which = plain_request("actions", which)
    sealed = sealed_words(client.sealer, which)
    ids, wanted = which.get("ids"), which.get("filter")
    if isinstance(ids, list) and wanted is None:
        encrypted, plain = await _named(client, list(dict.fromkeys(map(str, ids))))
    elif ids is None and (meant := _filter(wanted)) is not None:
        encrypted, plain = await _meant(client, meant)
    else:
        return [sealed]
    return [*_portions(sealed, encrypted), *_portions(which, plain)]


def merged(action: Action, results: Sequence[BulkResult]) -> BulkResult:
    """Merge the results of the parts of a bulk action."""
    return BulkResult(
        action=action,
        matched=sum(one.matched for one in results),
        changed=sum(one.changed for one in results),
        versions={task_id: version for one in results for task_id, version in one.versions.items()},
        problems=[problem for one in results for problem in one.problems],
        problems_are_capped=any(one.problems_are_capped for one in results),
    )


async def _named(client: Requester, ids: list[str]) -> tuple[list[str], list[str]]:
    """Return which of the tasks are encrypted, and which plain; a missing one counts as encrypted."""

    async def is_plain(task_id: str) -> bool:
        try:
            return not (await client.call("get", {"id": task_id})).get("encrypted")
        except (TaskNotFound, ValidationFailed):
            return False

    found: dict[str, bool] = {}
    for start in range(0, len(ids), _AT_ONCE):
        portion = ids[start : start + _AT_ONCE]
        found |= zip(portion, await asyncio.gather(*map(is_plain, portion)), strict=True)
    return [one for one in ids if not found[one]], [one for one in ids if found[one]]


def _filter(wanted: object) -> TaskFilter | None:
    try:
        return TaskFilter.model_validate(wanted)
    except ValidationError:
        return None


async def _meant(client: Requester, wanted: TaskFilter) -> tuple[list[str], list[str]]:
    """Return which of the tasks that a filter selects are encrypted, and which plain."""
    params = query_of(wanted)
    path = tasks_path(params.pop("room", None))
    which: tuple[list[str], list[str]] = [], []
    listing = client._list(TaskItem, path, MOST_OF_PAGE, 0, params=params, by_cursor=True)  # noqa: SLF001
    async for item in listing:
        which[not item.encrypted].append(item.id)
    return which


def _portions(which: dict[str, Any], ids: list[str]) -> list[dict[str, Any]]:
    said = {name: value for name, value in which.items() if name not in {"ids", "filter", "if_versions"}}
    versions = which.get("if_versions") or {}
    parts: list[dict[str, Any]] = []
    for start in range(0, len(ids), MOST_OF_REQUEST):
        named = ids[start : start + MOST_OF_REQUEST]
        known = {task_id: versions[task_id] for task_id in named if task_id in versions}
        parts.append({**said, "ids": named, **({"if_versions": known} if known else {})})
    return parts
