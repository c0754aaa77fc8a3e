"""The operations of a program; printed programs take them all from here."""

from tests.model.operations.base import JOBS, Moment, Operation, Request, answered, is_chosen, task_seen
from tests.model.operations.credentials import ByRun
from tests.model.operations.fleet import DrainWorker, Link, PauseJob, Register, RemoveWorker
from tests.model.operations.limits import DeleteLimit, SetLimit
from tests.model.operations.runs import Beat, Claim, Reclaim, Report, Reports
from tests.model.operations.schedules import DeleteSchedule, PauseSchedule, RunSchedule, SetSchedule
from tests.model.operations.staging import Crash, Faulty, Other, Pass, Restart, Service, Step, Together
from tests.model.operations.steps import Receive, Send
from tests.model.operations.tasks import Edit, EditMany, Look, PatchStatus, Steer, SteerMany, Submit, SubmitEach

__all__ = [
    "JOBS",
    "Beat",
    "ByRun",
    "Claim",
    "Crash",
    "DeleteLimit",
    "DeleteSchedule",
    "DrainWorker",
    "Edit",
    "EditMany",
    "Faulty",
    "Link",
    "Look",
    "Moment",
    "Operation",
    "Other",
    "Pass",
    "PatchStatus",
    "PauseJob",
    "PauseSchedule",
    "Receive",
    "Reclaim",
    "Register",
    "RemoveWorker",
    "Report",
    "Reports",
    "Request",
    "Restart",
    "RunSchedule",
    "Send",
    "Service",
    "SetLimit",
    "SetSchedule",
    "Steer",
    "SteerMany",
    "Step",
    "Submit",
    "SubmitEach",
    "Together",
    "answered",
    "is_chosen",
    "task_seen",
]
