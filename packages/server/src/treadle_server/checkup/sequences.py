"""Whether new rows of PostgreSQL's tables get keys that no row has: a restore, or a replica, may lack its sequences."""

from sqlalchemy import Connection, func, select, text

from treadle_server.store.tables import SEQUENCES, jobs, lanes, targets, tasks

_KEYS = {"task_seq": tasks.c.seq, "job_num": jobs.c.num, "lane_id": lanes.c.id, "target_num": targets.c.num}

_LAST = text("SELECT coalesce(pg_sequence_last_value(CAST(:name AS text)::regclass), 0)")


def behind(connection: Connection) -> dict[str, int]:
    """Return the sequences that would give a key that is taken, each with the greatest of its table."""
    if connection.dialect.name != "postgresql":
        return {}
    found: dict[str, int] = {}
    for kind, key in _KEYS.items():
        name = SEQUENCES[kind].name
        greatest = connection.execute(select(func.max(key))).scalar_one() or 0
        # After the table: its rows had their keys before. Who may only use a sequence may not select from it.
        if connection.execute(_LAST, {"name": name}).scalar_one() < greatest:
            found[name] = int(greatest)
    return found
