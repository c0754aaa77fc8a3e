"""What somebody has added to Treadle's tables on PostgreSQL: it may refuse rows, or keep them from being written."""

from sqlalchemy import Connection, text

from treadle_server.store.failures import is_own
from treadle_server.store.tables import metadata

_REQUIRED = [f"{column.table}.{column.name}" for t in metadata.tables.values() for column in t.c if not column.nullable]

_FOUND = text("""
WITH own AS (SELECT oid, relname FROM pg_class WHERE relname = ANY (:tables) AND relkind = 'r'
                AND pg_table_is_visible(oid))
SELECT 'trigger', tgname, relname FROM pg_trigger JOIN own ON own.oid = tgrelid
 WHERE NOT tgisinternal AND tgenabled <> 'D'
UNION ALL
SELECT 'rule', rulename, relname FROM pg_rewrite JOIN own ON own.oid = ev_class WHERE ev_enabled <> 'D'
UNION ALL
SELECT 'constraint', conname, conrelid::regclass::text FROM pg_constraint
 WHERE contype IN ('c', 'f', 'p', 'u', 'x')
   AND (conrelid IN (SELECT oid FROM own) OR confrelid IN (SELECT oid FROM own))
UNION ALL
SELECT 'constraint', index.relname, own.relname
  FROM pg_index JOIN own ON own.oid = indrelid JOIN pg_class AS index ON index.oid = indexrelid
 WHERE indisunique AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = indexrelid)
UNION ALL
SELECT 'column', attname, relname FROM pg_attribute JOIN own ON own.oid = attrelid
 WHERE attnum > 0 AND NOT attisdropped AND attnotnull AND NOT atthasdef AND attidentity = ''
   AND relname || '.' || attname <> ALL (:required)
ORDER BY 1, 3, 2
""").bindparams(tables=sorted(metadata.tables), required=_REQUIRED)


def additions(connection: Connection) -> list[str]:
    """Return them, each with its table: triggers, rules, constraints, and columns that must be given a value."""
    return [
        f"the {kind} {name} of the table {table}"
        for kind, name, table in connection.execute(_FOUND)
        if kind != "constraint" or not is_own(name)
    ]
