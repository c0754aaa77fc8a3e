"""One foreign key of a task instead of two: its lane, which is to be one of its job's.

PostgreSQL looks up every key of every new task by a statement of its own. On SQLite a table's keys are part of how it
is declared, and are changed there as in 0027: no row is rewritten.
"""

import re

from alembic import op

revision = "0032"
down_revision = "0031"
branch_labels = None
depends_on = None

_TWO = (
    "CONSTRAINT fk_tasks_job_num FOREIGN KEY(job_num) REFERENCES jobs (num)",
    "CONSTRAINT fk_tasks_lane FOREIGN KEY(lane) REFERENCES lanes (id)",
)
_ONE = "CONSTRAINT fk_tasks_lane_job_num FOREIGN KEY(lane, job_num) REFERENCES lanes (id, job_num)"


def upgrade() -> None:
    op.create_index("uq_lanes_id_job_num", "lanes", ["id", "job_num"], unique=True)
    if op.get_bind().dialect.name == "sqlite":
        _declare(re.escape(_TWO[0]) + r",\s*" + re.escape(_TWO[1]), _ONE)
    else:
        op.execute(f"ALTER TABLE tasks DROP CONSTRAINT fk_tasks_job_num, DROP CONSTRAINT fk_tasks_lane, ADD {_ONE}")


def _declare(was: str, now: str) -> None:
    """Have SQLite's table of tasks declared so, as https://www.sqlite.org/lang_altertable.html#otheralter has it.

    One that 0013 could not declare anew keeps its two keys, which say the same.
    """
    bind = op.get_bind()
    declared = bind.exec_driver_sql("SELECT sql FROM sqlite_master WHERE type = 'table' AND name = 'tasks'")
    sql = re.sub(was, now, str(declared.scalar_one()))
    version = bind.exec_driver_sql("PRAGMA schema_version").scalar_one()
    bind.exec_driver_sql("PRAGMA writable_schema = ON")
    try:
        bind.exec_driver_sql("UPDATE sqlite_master SET sql = ? WHERE type = 'table' AND name = 'tasks'", (sql,))
        bind.exec_driver_sql(f"PRAGMA schema_version = {version + 1}")
    finally:
        bind.exec_driver_sql("PRAGMA writable_schema = RESET")


def downgrade() -> None:
    if op.get_bind().dialect.name == "sqlite":
        _declare(re.escape(_ONE), ", \n\t".join(_TWO))
    else:
        added = ", ".join(f"ADD {one}" for one in _TWO)
        op.execute(f"ALTER TABLE tasks DROP CONSTRAINT fk_tasks_lane_job_num, {added}")
    op.drop_index("uq_lanes_id_job_num", "lanes")
