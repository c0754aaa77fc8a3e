"""All commands that the writer takes."""

from treadle_server.engine.commands.artifacts import AnnounceArtifact, StoreArtifact, SweepArtifacts
from treadle_server.engine.commands.base import Each
from treadle_server.engine.commands.beats import Beat, Beaten, Reattach, ReturnUnstarted
from treadle_server.engine.commands.dependants import TellWaiters
from treadle_server.engine.commands.editing import Edit
from treadle_server.engine.commands.internal import FailDispatch, TakeOver
from treadle_server.engine.commands.jobs import PatchJob, Registered, RegisterJob
from treadle_server.engine.commands.limits import DeleteLimit, ForgetIdle, OpenLimits, SetLimit
from treadle_server.engine.commands.rechecks import Recheck
from treadle_server.engine.commands.reports import Receive, ReportMany, ReportRun
from treadle_server.engine.commands.run_report import RunReport
from treadle_server.engine.commands.schedules import DeleteSchedule, FireDue, PauseSchedule, RunSchedule, SetSchedule
from treadle_server.engine.commands.statuses import PatchStatus
from treadle_server.engine.commands.steering import Steer
from treadle_server.engine.commands.steps import SendMessage, StepReport
from treadle_server.engine.commands.submit import SchemaMoved, Submission, Submit, SubmitEach, SubmitOutcome, Submitted
from treadle_server.engine.commands.sweeps import (
    DeleteOrphans,
    ExpireLeases,
    LookAhead,
    MissDeadlines,
    PromoteDue,
    ReleaseHolds,
    RestampLeases,
    RestampPresent,
    SweepWorkers,
)
from treadle_server.engine.commands.workers import (
    DrainWorker,
    FindClaims,
    FindWorker,
    LinkJobs,
    RegisterWorker,
    RemoveWorker,
)

__all__ = [
    "AnnounceArtifact",
    "Beat",
    "Beaten",
    "DeleteLimit",
    "DeleteOrphans",
    "DeleteSchedule",
    "DrainWorker",
    "Each",
    "Edit",
    "ExpireLeases",
    "FailDispatch",
    "FindClaims",
    "FindWorker",
    "FireDue",
    "ForgetIdle",
    "LinkJobs",
    "LookAhead",
    "MissDeadlines",
    "OpenLimits",
    "PatchJob",
    "PatchStatus",
    "PauseSchedule",
    "PromoteDue",
    "Reattach",
    "Receive",
    "Recheck",
    "RegisterJob",
    "RegisterWorker",
    "Registered",
    "ReleaseHolds",
    "RemoveWorker",
    "ReportMany",
    "ReportRun",
    "RestampLeases",
    "RestampPresent",
    "ReturnUnstarted",
    "RunReport",
    "RunSchedule",
    "SchemaMoved",
    "SendMessage",
    "SetLimit",
    "SetSchedule",
    "Steer",
    "StepReport",
    "StoreArtifact",
    "Submission",
    "Submit",
    "SubmitEach",
    "SubmitOutcome",
    "Submitted",
    "SweepArtifacts",
    "SweepWorkers",
    "TakeOver",
    "TellWaiters",
]
