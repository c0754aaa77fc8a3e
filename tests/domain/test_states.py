"""The table of transitions, and the functions that it guards."""

from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.domain.made import START, new_task
from treadle.wire.ids import WorkerId
from treadle.wire.status import LEASED, OPEN, TERMINAL, Outcome, Reason, Status
from treadle.wire.transitions import TRANSITIONS, Verb
from treadle_server.domain import life
from treadle_server.domain.life import Ending
from treadle_server.domain.retry import CAP, backoff, requeue_delay
from treadle_server.domain.states import advance
from treadle_server.domain.tasks import Task
from treadle_server.errors import InvalidTaskTransition, Refused

WORKER = WorkerId("00000000-0000-7000-8000-000000000001")

# DESIGN.md, sections 3 and 13, written out again by hand: (verb, from, to).
EXPECTED = {
    (Verb.PROMOTE, "scheduled", "pending"),
    *((Verb.UNBLOCK, "blocked", target) for target in ("pending", "scheduled")),
    (Verb.DEFER, "pending", "scheduled"),
    (Verb.CLAIM, "pending", "claimed"),
    (Verb.START, "claimed", "running"),
    (Verb.COMPLETE, "running", "completed"),
    *((Verb.FAIL, source, "failed") for source in ("claimed", "running")),
    *(
        (verb, s, t)
        for verb in (Verb.RETRY, Verb.REQUEUE, Verb.SUSPEND)
        for s in ("claimed", "running")
        for t in ("scheduled", "pending")
    ),
    *((Verb.INTERRUPT, source, "paused") for source in ("claimed", "running")),
    *((Verb.PAUSE, source, "paused") for source in ("scheduled", "blocked", "pending")),
    *((Verb.CANCEL, s, "cancelled") for s in ("scheduled", "blocked", "pending", "claimed", "running", "paused")),
    *((Verb.EXPIRE, s, "failed") for s in ("scheduled", "blocked", "pending", "claimed", "running", "paused")),
    *((Verb.RESUME, s, t) for s in ("paused", "failed") for t in ("pending", "scheduled", "blocked")),
    *((Verb.RESOLVE, s, t) for s in ("paused", "failed") for t in ("completed", "failed", "cancelled")),
    *((Verb.RERUN, s, t) for s in ("completed", "failed", "cancelled") for t in ("pending", "blocked")),
}


@pytest.mark.parametrize("verb", Verb)
@pytest.mark.parametrize("source", Status)
@pytest.mark.parametrize("target", Status)
def test_a_verb_leads_exactly_where_the_table_says_z7(verb, source, target) -> None:
    if (verb, str(source), str(target)) in EXPECTED:
        assert advance(source, verb, target) is target
    else:
        with pytest.raises(InvalidTaskTransition):
            advance(source, verb, target)


def test_a_refused_pause_names_what_runs_among_what_can_be_paused() -> None:
    with pytest.raises(
        InvalidTaskTransition, match="needs it to be one of: blocked, claimed, pending, running, scheduled"
    ):
        advance(Status.COMPLETED, Verb.PAUSE, Status.PAUSED)


def test_only_resume_resolve_and_rerun_leave_a_terminal_state() -> None:
    leaving = {verb for verb, transition in TRANSITIONS.items() if transition.sources & TERMINAL}
    assert leaving == {Verb.RESUME, Verb.RESOLVE, Verb.RERUN}


def test_the_first_three_retries_wait_5_10_and_20_seconds_t4() -> None:
    waits = [backoff(n, base=5, multiplier=2, randomization=0, draw=0.7).total_seconds() for n in range(3)]
    assert waits == [5, 10, 20]


@given(
    attempt=st.integers(0, 10_000),
    base=st.floats(0, 1e6),
    multiplier=st.floats(1, 100),
    randomization=st.floats(0, 10),
    draw=st.floats(0, 1, exclude_max=True),
)
def test_a_backoff_stays_within_its_bounds_e7(attempt, base, multiplier, randomization, draw) -> None:
    delay = backoff(attempt, base=base, multiplier=multiplier, randomization=randomization, draw=draw)
    plain = backoff(attempt, base=base, multiplier=multiplier, randomization=0, draw=0)

    assert timedelta(0) <= plain <= delay <= CAP
    assert delay.total_seconds() <= plain.total_seconds() * (1 + randomization) + 1e-5


@pytest.mark.parametrize(("draw", "seconds"), [(0.0, 10.0), (0.5, 12.5), (1.0, 15.0)])
def test_a_backoff_is_longer_by_a_random_share_e7(draw, seconds) -> None:
    delay = backoff(1, base=5, multiplier=2, randomization=0.5, draw=draw)

    assert delay.total_seconds() == seconds


@pytest.mark.parametrize("attempt", [20, 5000])
def test_no_backoff_is_longer_than_a_day_e7(attempt) -> None:
    assert backoff(attempt, base=5, multiplier=2, randomization=1, draw=0.5) == CAP == timedelta(days=1)


def test_the_first_loss_requeues_at_once_and_later_ones_back_off_a_little() -> None:
    assert [requeue_delay(n).total_seconds() for n in range(9)] == [0, 1, 2, 4, 8, 16, 32, 60, 60]


class TaskLife(RuleBasedStateMachine):
    """Any verb at any time: what is refused changes nothing, and what every task must hold, holds."""

    def __init__(self) -> None:
        super().__init__()
        self.now = START
        self.task = new_task()
        self.runs = []
        self.completions = 0

    def attempt(self, verb) -> None:
        before = {name: getattr(self.task, name) for name in Task.__slots__}
        try:
            run = verb()
        except Refused:
            assert {name: getattr(self.task, name) for name in Task.__slots__} == before
            return
        if run is not None:
            self.runs.append(run)

    @rule(seconds=st.integers(0, 100))
    def time_passes(self, seconds) -> None:
        self.now += timedelta(seconds=seconds)

    @rule()
    @precondition(lambda self: self.task.due_at <= self.now)
    def promote(self) -> None:
        self.attempt(lambda: life.promote(self.task, self.now))

    @rule()
    def claim(self) -> None:
        self.attempt(lambda: life.claim(self.task, WORKER, self.now))

    @rule(stale=st.booleans())
    def start(self, stale) -> None:
        self.attempt(lambda: life.start(self.task, self.task.run_id - stale, self.now))

    @rule()
    @precondition(lambda self: self.task.is_leased)
    def complete(self) -> None:
        self.attempt(lambda: life.complete(self.task, "1", Ending(Outcome.COMPLETED), self.now))
        self.completions += self.task.status is Status.COMPLETED

    @rule(
        reason=st.sampled_from([r for r in Reason if r not in {Reason.CANCELLED, Reason.RETURNED, Reason.INTERRUPTED}])
    )
    def fail(self, reason) -> None:
        self.attempt(lambda: life.fail(self.task, Ending(Outcome.FAILED, reason, "boom"), self.now, lambda: 0.5))

    @rule()
    @precondition(lambda self: self.task.is_leased)
    def hand_back(self) -> None:
        self.attempt(lambda: life.hand_back(self.task, Ending(Outcome.RETURNED, Reason.RETURNED), self.now))

    @rule()
    @precondition(lambda self: self.task.is_leased)
    def confirm_pause(self) -> None:
        self.attempt(lambda: life.confirm_pause(self.task, "{}", Ending(Outcome.PAUSED), self.now))

    @rule(verb=st.sampled_from([life.pause, life.cancel, life.miss_deadline, life.resume, life.rerun]))
    def steer(self, verb) -> None:
        self.attempt(lambda: verb(self.task, self.now))

    @rule(to=st.sampled_from(sorted(TERMINAL)))
    def resolve(self, to) -> None:
        self.attempt(lambda: life.resolve(self.task, to, None, "by hand", self.now))

    @invariant()
    def a_lease_goes_with_the_leased_states(self) -> None:
        assert (self.task.taken_until is not None) == (self.task.status in LEASED)

    @invariant()
    def a_terminal_task_has_an_end_and_an_open_one_has_none(self) -> None:
        assert (self.task.completed_at is not None) == (self.task.status in TERMINAL)
        assert (self.task.status in OPEN) != (self.task.status in TERMINAL)

    @invariant()
    def every_run_is_resolved_once_and_the_open_one_is_the_last(self) -> None:
        ids = [run.run_id for run in self.runs]
        assert ids == sorted(set(ids))
        expected = self.task.run_id + (not self.task.is_leased)
        assert len(ids) == expected

    @invariant()
    def budgets_are_kept(self) -> None:
        assert self.task.retry_count <= self.task.max_retries
        assert self.task.requeue_count <= self.task.max_requeues


TestTaskLife = TaskLife.TestCase
TestTaskLife.settings = settings(
    max_examples=150, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)


@pytest.mark.parametrize("reason", [Reason.CLAIM_EXPIRED, Reason.TIMEOUT])
def test_an_unfenced_run_that_is_lost_fails_whatever_the_budget(reason) -> None:
    task = new_task(max_retries=5, max_requeues=5)
    life.claim(task, WORKER, START)
    life.start(task, None, START)

    life.fail(task, Ending(Outcome.EXCEPTION, reason, "Worker disconnected"), START, lambda: 0)

    assert task.status is Status.FAILED


def test_while_a_pause_is_asked_every_end_but_completed_and_over_budget_pauses_l4() -> None:
    for reason in (Reason.ERROR, Reason.TIMEOUT, Reason.CLAIM_EXPIRED, Reason.MALFORMED_PAYLOAD):
        task = new_task()
        life.claim(task, WORKER, START)
        life.start(task, 0, START)
        life.pause(task, START)
        life.fail(task, Ending(Outcome.FAILED, reason, "cleanup raised"), START, lambda: 0)
        assert (task.status, task.cancel_requested) == (Status.PAUSED, False)
    task = new_task()
    life.claim(task, WORKER, START)
    life.pause(task, START)
    life.fail(task, Ending(Outcome.EXCEPTION, Reason.BUDGET_EXCEEDED), START, lambda: 0)
    assert (task.status, task.cancel_requested) == (Status.FAILED, False)
