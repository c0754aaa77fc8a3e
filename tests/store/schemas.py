"""What a database's schema is, to be compared: the order of columns and constraints is no part of it."""

import re

import sqlalchemy as sa

Schema = dict[str, object]


def schema_of(connection: sa.Connection) -> Schema:
    """Return every object of the schema with its definition."""
    return _of_sqlite(connection) if connection.dialect.name == "sqlite" else _of_postgresql(connection)


def _of_sqlite(connection: sa.Connection) -> Schema:
    found = connection.exec_driver_sql("SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL")
    return {f"{kind} {name}": _parts(sql) if kind == "table" else _flat(sql) for kind, name, sql in found}


def _flat(sql: str) -> str:
    return re.sub(r"\s*([(),])\s*", r"\1", " ".join(sql.split()))


def _parts(sql: str) -> list[str]:
    """Return what stands between the commas of a CREATE TABLE's own brackets, sorted, and what stands around them."""
    head, body = _flat(sql).split("(", 1)
    body, tail = body.rsplit(")", 1)
    depth, parts = 0, [""]
    for sign in body:
        depth += {"(": 1, ")": -1}.get(sign, 0)
        if sign == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += sign
    return [head, *sorted(parts), tail]


_CATALOG = {
    "column": """
        SELECT relname || '.' || attname, format_type(atttypid, atttypmod), attnotnull, attidentity, attgenerated,
               attcollation, pg_get_expr(adbin, adrelid)
        FROM pg_attribute JOIN pg_class t ON t.oid = attrelid LEFT JOIN pg_attrdef ON adrelid = t.oid AND adnum = attnum
        WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'v', 'm') AND attnum > 0
          AND NOT attisdropped""",
    "constraint": """
        SELECT relname || '.' || conname, contype, pg_get_constraintdef(c.oid), convalidated, condeferrable
        FROM pg_constraint c JOIN pg_class t ON t.oid = conrelid WHERE connamespace = current_schema()::regnamespace""",
    "index": "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = current_schema()",
    "view": "SELECT viewname, definition FROM pg_views WHERE schemaname = current_schema()",
    "sequence": """
        SELECT sequencename, data_type::text, start_value, min_value, max_value, increment_by, cycle, cache_size
        FROM pg_sequences WHERE schemaname = current_schema()""",
    "trigger": """
        SELECT tgname, pg_get_triggerdef(g.oid) FROM pg_trigger g JOIN pg_class t ON t.oid = tgrelid
        WHERE NOT tgisinternal AND relnamespace = current_schema()::regnamespace""",
    "function": """
        SELECT proname, pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = current_schema()::regnamespace""",
    "table": """
        SELECT relname, relkind, reloptions::text FROM pg_class
        WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p', 'v', 'm')""",
}


def _of_postgresql(connection: sa.Connection) -> Schema:
    return {
        f"{kind} {row[0]}": tuple(row[1:])
        for kind, query in _CATALOG.items()
        for row in connection.exec_driver_sql(query)
    }
