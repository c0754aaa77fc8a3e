"""Everything that crosses the wire, in pydantic models; needs pydantic and nothing else."""

from treadle.wire.fields import Instant, Model, Request
from treadle.wire.ids import JobId, RunId, TaskId, WorkerId
from treadle.wire.jobs import JobItem, JobPatch, JobRegister, QueueHistory
from treadle.wire.names import GLOBAL, INTERNAL, InvalidJobName, InvalidRoom, JobName, parse_job_name, parse_room
from treadle.wire.problems import PROBLEMS, Problem, ProblemType
from treadle.wire.runs import (
    Checkpoint,
    Claim,
    ClaimAnswer,
    ClaimRequest,
    Completed,
    ExceptionReport,
    Failed,
    LogItem,
    LogLine,
    Logs,
    Paused,
    Progress,
    Report,
    ReportAnswer,
    Reports,
    ReportsAnswer,
)
from treadle.wire.server import Health, NewToken, Stats, TargetItem, TokenCreate, TokenItem, Whoami
from treadle.wire.status import LEASED, OPEN, TERMINAL, Outcome, Reason, Status, WorkerState
from treadle.wire.tasks import (
    BulkAction,
    BulkProblem,
    BulkResult,
    Page,
    Resolve,
    RunItem,
    Steer,
    TaskFilter,
    TaskItem,
    TaskOfMany,
    TaskOptions,
    TaskPatch,
    TaskSubmit,
    TaskSubmitMany,
)
from treadle.wire.workers import (
    Heartbeat,
    HeartbeatAnswer,
    Renewal,
    RunName,
    RunRef,
    TakenUntil,
    WorkerItem,
    WorkerRegister,
)

__all__ = sorted(name for name in globals() if not name.startswith("_"))
