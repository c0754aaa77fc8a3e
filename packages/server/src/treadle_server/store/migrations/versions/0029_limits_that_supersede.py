"""Limits that let newer tasks supersede older ones: what a limit may say, and the reason of what was superseded.

On SQLite the checks of a table are part of how it is declared, and are changed there as in 0027: no row is rewritten.
"""

import re

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None

_WORDS = (("tasks", "reason", ("superseded",)), ("limits", "on_full", ("newest", "replace")))
"""Of a table and column, the words that its check is to admit too."""


def upgrade() -> None:
    bind = op.get_bind()
    for table, column, words in _WORDS:
        if bind.dialect.name == "sqlite":
            _admit_on_sqlite(bind, table, column, words)
        else:
            _admit_on_postgresql(bind, table, column, words)


def _listed(column: str, words: set[str]) -> str:
    return f"{column} IN (" + ", ".join(f"'{word}'" for word in sorted(words)) + ")"


def _admit_on_sqlite(bind: sa.Connection, table: str, column: str, words: tuple[str, ...]) -> None:
    """Let a column have more words, as https://www.sqlite.org/lang_altertable.html#otheralter has it."""
    was = str(
        bind.exec_driver_sql("SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ?", (table,)).scalar_one()
    )
    sql = re.sub(
        rf"\b{column} IN \(([^)]*)\)", lambda m: _listed(column, {*re.findall(r"'([^']+)'", m[1]), *words}), was
    )
    version = bind.exec_driver_sql("PRAGMA schema_version").scalar_one()
    bind.exec_driver_sql("PRAGMA writable_schema = ON")
    try:
        bind.exec_driver_sql("UPDATE sqlite_master SET sql = ? WHERE type = 'table' AND name = ?", (sql, table))
        bind.exec_driver_sql(f"PRAGMA schema_version = {version + 1}")
    finally:
        bind.exec_driver_sql("PRAGMA writable_schema = RESET")


def _admit_on_postgresql(bind: sa.Connection, table: str, column: str, words: tuple[str, ...]) -> None:
    found = bind.exec_driver_sql(
        "SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE contype = 'c'"  # noqa: S608 - constants
        f" AND conrelid = '{table}'::regclass AND conname LIKE '%%{column}_known'"
    )
    for name, definition in found.all():
        condition = _listed(column, {*re.findall(r"'([a-z-]+)'::", definition), *words})
        if "IS NULL" in definition:
            condition = f"{column} IS NULL OR {condition}"
        op.execute(f"ALTER TABLE {table} DROP CONSTRAINT {name}, ADD CONSTRAINT {name} CHECK ({condition})")


def downgrade() -> None:
    """Leave the checks: they admit what there was before, and what was superseded stays so."""
