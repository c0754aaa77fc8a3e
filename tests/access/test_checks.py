"""Who may do what to a row, where the routes can't tell (C8, G10)."""

from datetime import UTC, datetime

import pytest

from tests.domain.made import new_task
from treadle.wire.ids import JobId, TaskId, WorkerId
from treadle_server.access.checks import check_control, check_schema, controls, is_own, needs_scope, visibility_of
from treadle_server.access.principal import Principal
from treadle_server.domain.jobs import Job, Worker
from treadle_server.errors import Forbidden

AT = datetime(2026, 1, 1, tzinfo=UTC)

EVERY_USERS = frozenset({"queue:worker-id:*", "queue:create-task:*"})


def job_of(owner: str | None) -> Job:
    return Job(1, JobId("j"), "lab", "tasks", "add", "{}", 1, "{}", AT, owner=owner)


@pytest.mark.parametrize(("run", "expected"), [(None, True), ((TaskId("t"), 0), False)])
def test_g10_a_credential_is_not_its_user_whatever_scopes_its_task_carries(run, expected) -> None:
    alice = Principal("alice", scopes=EVERY_USERS, run=run)
    worker = Worker(WorkerId("w"), "alice", created_at=AT, last_heartbeat=AT)

    assert is_own(alice, worker) is expected
    assert controls(alice, new_task(submitter="alice")) is expected


@pytest.mark.parametrize(
    ("run", "said"),
    [
        (None, "the token lacks the scope {}"),
        ((TaskId("t"), 0), "the run's credential lacks the scope {}: submit the task with it among its scopes"),
    ],
)
def test_who_lacks_a_scope_is_told_of_what_it_was_asked_with(run, said: str) -> None:
    asker = Principal("alice", scopes=frozenset({"queue:read:lab"}), run=run)

    with pytest.raises(Forbidden) as refused:
        needs_scope(asker, "queue:create-task:lab/x")
    with pytest.raises(Forbidden) as refused_control:
        check_control(asker, new_task(room="lab", submitter="bob"))

    assert refused.value.detail == said.format("queue:create-task:lab/x")
    assert refused_control.value.detail == said.format("queue:control-task:lab")


def test_a_schema_of_nobody_that_is_known_is_replaced_by_superusers_and_controllers_alone() -> None:
    with pytest.raises(Forbidden, match="an unknown user"):
        check_schema(Principal("alice"), job_of(None))

    check_schema(Principal("alice"), job_of("alice"))
    check_schema(Principal("alice", scopes=frozenset({"queue:control-task:lab"})), job_of(None))
    check_schema(Principal("root", superuser=True), job_of(None))


def test_who_reads_no_room_sees_no_job_of_the_shared_ones_either() -> None:
    blind, reader = (
        visibility_of(Principal("u", scopes=frozenset({scope}))) for scope in ("queue:x", "queue:read:lab")
    )

    assert blind is not None
    assert reader is not None
    assert [visibility.admits_job("@global") for visibility in (blind, reader)] == [False, True]
