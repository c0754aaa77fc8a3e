"""The writer's reads, updates and deletions of rows of steps and messages."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import ARRAY, Integer, Table, and_, bindparam, delete, func, select, text, update
from sqlalchemy.types import TypeEngine

from treadle_server.domain.steps import MESSAGE_FIELDS, STEP_FIELDS, Message, MessageKey, Step, StepKey
from treadle_server.store.base import Tx
from treadle_server.store.bound_lists import NUMBER, TEXT, is_among, is_same
from treadle_server.store.prepared import Prepared
from treadle_server.store.tables import runs, task_messages, task_steps

_KEY: Mapping[str, TypeEngine[Any]] = {"task_seq": NUMBER, "name": TEXT, "occurrence": Integer()}
_PLACE: Mapping[str, TypeEngine[Any]] = {"task_seq": NUMBER, "number": Integer()}
_ID: Mapping[str, TypeEngine[Any]] = {"task_seq": NUMBER, "name": TEXT, "id": TEXT}
_c = task_messages.c
_waits = text("task_messages.step IS NULL")
"""Spelt as in the partial index."""


async def _found(
    tx: Tx, table: Table, names: Sequence[str], key: Mapping[str, TypeEngine[Any]], values: Collection[tuple[Any, ...]]
) -> list[Any]:
    """Return the rows with these keys, each looked up in an index: one by one on SQLite, together on PostgreSQL."""
    if not values:
        return []
    rows, ordered = select(*(table.c[name] for name in names)), sorted(values)
    if tx.dialect == "sqlite":
        row = rows.where(*(table.c[name] == bindparam(name) for name in key))
        each = [dict(zip(key, value, strict=True)) for value in ordered]
        return [found for one in each for found in await tx.connection.execute(row, one)]
    wanted = select(
        *(func.unnest(bindparam(name, type_=ARRAY(kind))).label(name) for name, kind in key.items())
    ).subquery("wanted")
    joined = rows.join_from(wanted, table, and_(*(is_same(table.c[name], wanted.c[name]) for name in key)))
    columns = dict(zip(key, (list(column) for column in zip(*ordered, strict=True)), strict=True))
    return list(await tx.connection.execute(joined, columns))


async def steps_by_key(tx: Tx, keys: Collection[StepKey]) -> list[Step]:
    """Return the steps that exist. Their tasks are locked, so no other server can change them."""
    return [Step(*row) for row in await _found(tx, task_steps, STEP_FIELDS, _KEY, keys)]


async def steps_by_number(tx: Tx, places: Collection[tuple[int, int]]) -> list[Step]:
    """Return the steps that exist, by (task `seq`, number)."""
    return [Step(*row) for row in await _found(tx, task_steps, STEP_FIELDS, _PLACE, places)]


async def last_worked(tx: Tx, seqs: Collection[int]) -> dict[int, int]:
    """Return by task `seq` its last past run that a worker had; tasks without one are left out."""
    return {row[0]: row[1] for row in await _last_worked.rows(tx, seqs=seqs)}


_last_worked = Prepared(
    select(runs.c.task_seq, func.max(runs.c.run_id))
    .where(is_among(runs.c.task_seq, "seqs"), runs.c.worker_id.is_not(None))
    .group_by(runs.c.task_seq)
)


async def delete_steps(tx: Tx, first: Mapping[int, int]) -> None:
    """Delete the steps of each task (by `seq`) from a number on."""
    if first:
        statement = delete(task_steps).where(
            task_steps.c.task_seq == bindparam("seq"), task_steps.c.number >= bindparam("first")
        )
        rows = [{"seq": seq, "first": number} for seq, number in sorted(first.items())]
        await tx.connection.execute(statement, rows)


async def messages_by_key(tx: Tx, keys: Collection[MessageKey]) -> list[Message]:
    """Return the messages that exist, received or not."""
    return [Message(*row) for row in await _found(tx, task_messages, MESSAGE_FIELDS, _ID, keys)]


async def waiting_messages(tx: Tx, wanted: Mapping[tuple[int, str], int]) -> list[Message]:
    """Return the oldest waiting messages, up to the wanted number for each (task `seq`, name)."""
    statement = (
        select(*(_c[name] for name in MESSAGE_FIELDS))
        .where(_c.task_seq == bindparam("seq"), _c.name == bindparam("name"), _waits)
        .order_by(_c.number)
        .limit(bindparam("most"))
    )
    found: list[Message] = []
    for (seq, name), most in sorted(wanted.items()):
        rows = await tx.connection.execute(statement, {"seq": seq, "name": name, "most": most})
        found += [Message(*row) for row in rows]
    return found


async def message_counts(tx: Tx, seqs: Collection[int]) -> dict[int, tuple[int, int]]:
    """Return by task `seq` how many messages wait, and the number for the next one."""
    if not seqs:
        return {}
    among = is_among(_c.task_seq, "seqs")
    given = {"seqs": seqs}
    waiting = select(_c.task_seq, func.count()).where(among, _waits).group_by(_c.task_seq)
    greatest = select(_c.task_seq, func.max(_c.number)).where(among).group_by(_c.task_seq)
    waits = {row[0]: row[1] for row in await tx.connection.execute(waiting, given)}
    last = {row[0]: row[1] for row in await tx.connection.execute(greatest, given)}
    return {seq: (waits.get(seq, 0), last.get(seq, -1) + 1) for seq in seqs}


async def free_messages(tx: Tx, first: Mapping[int, int]) -> None:
    """Make messages wait again that were received by a task's steps from a number on."""
    if first:
        statement = (
            update(task_messages)
            .where(_c.task_seq == bindparam("seq"), _c.step >= bindparam("first"))
            .values(step=None)
        )
        rows = [{"seq": seq, "first": number} for seq, number in sorted(first.items())]
        await tx.connection.execute(statement, rows)


async def delete_messages(tx: Tx, seqs: Collection[int]) -> None:
    """Delete all messages of the tasks."""
    if seqs:
        statement = delete(task_messages).where(is_among(_c.task_seq, "seqs"))
        await tx.connection.execute(statement, {"seqs": seqs})
