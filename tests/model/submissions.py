"""Random submits, flows and limits, which Hypothesis draws and shortens."""

from typing import Any

from hypothesis import strategies as st

from tests.model.operations import JOBS, DeleteLimit, SetLimit, Submit, SubmitEach

KEYED = len(JOBS) - 1
"""The job that has a limit, whose keys are in the payloads."""

_user = st.sampled_from([0, 0, 0, 0, 1])


def some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Give dicts with any of these fields, most with few."""
    return st.fixed_dictionaries({}, optional=fields)


def rarely(one: st.SearchStrategy[Any], other: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Give the one in every fourth case."""
    return st.sampled_from([one, other, other, other]).flatmap(lambda chosen: chosen)


_submission = st.builds(
    lambda job, kept, rest: {"job": job, **{name: rest[name] for name in list(rest)[:kept]}},
    st.integers(0, KEYED - 1),
    st.sampled_from([0, 1, 2, 3, 20]),
    some(
        target=st.sampled_from(["a", "b"]),
        priority=st.integers(-1, 1),
        id=st.integers(1, 9),
        unique_key=st.sampled_from(["k", "l"]),
        max_retries=st.integers(0, 2),
        max_requeues=st.integers(0, 2),
        retry_base=st.sampled_from([0.0, 2.0]),
        timeout=st.sampled_from([5.0, 20.0]),
        lease_seconds=st.sampled_from([10.0, 40.0]),
        heartbeat_increment=st.sampled_from([0.0, 15.0]),
        start_timeout=st.sampled_from([3.0, 30.0]),
        on_failure=st.sampled_from(["hold", "release"]),
        weight=st.integers(1, 3),
        budget=st.sampled_from([0.0, 5.0]),
        pool=st.just("gpu"),
        deadline=st.sampled_from([20, 100]),
        tags=st.just({"k": "v"}),
        delay=st.sampled_from([0, 5, 30]),
        payload=st.sampled_from([{}, {"n": 1}]),
    )
    | some(
        scheduled_at=st.sampled_from([-60, -1, 0, 10]), target=st.sampled_from(["a", "b"]), priority=st.integers(-1, 1)
    ),
)
_needs = st.lists(st.integers(0, 11), min_size=1, max_size=3).map(tuple)
_policy = st.sampled_from([None, None, "cancel", "run", "hold", "hold"])


def _bound(submission: dict[str, Any], needs: tuple[int | str, ...], policy: str | None) -> dict[str, Any]:
    """Let a submission wait for tasks."""
    return {**submission, "needs": needs, **({} if policy is None else {"on_dependency_failure": policy})}


_plain_or_targeted = st.fixed_dictionaries({"job": st.integers(0, KEYED - 1)}, optional={
    "target": st.sampled_from(["a", "b"]), "id": st.integers(1, 9), "unique_key": st.sampled_from(["k", "l"]),
    "delay": st.sampled_from([0, 5]), "deadline": st.sampled_from([20, 100]), "max_retries": st.integers(0, 1),
})  # fmt: skip
follower = st.builds(_bound, _plain_or_targeted | _submission, _needs, _policy)


def _flow(items: list[dict[str, Any]], shape: list[tuple[str, ...]], policies: list[str | None]) -> Submit:
    """Return a request whose tasks wait for each other."""
    bound = [
        _bound(item, needs, policy) if needs else item
        for item, needs, policy in zip(items, shape, policies, strict=False)
    ]
    return Submit(tuple(bound), alone=False)


_shapes: st.SearchStrategy[list[tuple[str, ...]]] = st.sampled_from([
    [(), ("0",)], [(), ("0",), ("1",)], [(), ("0",), ("0",), ("1", "2")], [(), (), ("0", "1"), ("2",)],
    [(), ("0", "0")], [("1",), ("0",)], [("0",)], [(), ("0",), ("0", "1")],
])  # fmt: skip
"""A chain, a diamond, a fan-in, circles."""
flows = st.builds(
    _flow, st.lists(_plain_or_targeted, min_size=4, max_size=4), _shapes, st.lists(_policy, min_size=4, max_size=4)
)
_unfit = st.builds(
    lambda given, wrong: {**given, "wrong": wrong},
    _submission,
    st.sampled_from([{"weight": 0}, {"priority": "high"}, {"id": "none"}, {"payload": 7}, {"no_such": 1}, {"job": 1}]),
)
submit_each = st.builds(
    SubmitEach, st.lists(rarely(_unfit, _submission), min_size=1, max_size=4).map(tuple), st.integers(0, 1), _user
)
submit = st.builds(
    Submit, st.lists(_submission, min_size=1, max_size=4).map(tuple), st.integers(0, 1), _user, st.booleans()
)

_named = st.sampled_from(
    [
        [{"name": "api"}], [{"name": "api"}], [{"name": "api", "weight": 2}], [{"name": "api", "key": "a"}],
        [{"name": "gpu"}], [{"name": "api"}, {"name": "gpu"}], [{"name": "api", "key": "a"}, {"name": "gpu"}],
    ]
)  # fmt: skip
_limited = st.builds(lambda given, limits: {**given, "limits": limits}, _submission, _named)
_keyed = st.builds(
    lambda given, payload, limits: {**given, "job": KEYED, "payload": payload, **limits},
    _submission,
    st.sampled_from(
        [{}, {"n": 1}, {"n": 1}, {"n": 1.0}, {"n": "1"}, {"n": 2}, {"n": None}, {"n": True}, {"n": {"of": 1}}, {"m": 1}]
    ),
    st.sampled_from([{}, {}, {}, {"limits": [{"name": "api"}]}, {"limits": [{"name": "per"}]}]),
)
submit_limited = st.builds(
    Submit,
    st.lists(_limited | _limited | _keyed | _keyed | _submission, min_size=1, max_size=4).map(tuple),
    st.just(0),
    _user,
    st.booleans(),
)
_full = st.sampled_from(["wait", "wait", "reject", "newest", "replace"])
_rate = st.tuples(st.integers(1, 2), st.sampled_from([2.0, 10.0]), st.sampled_from([None, 1, 3]))
set_limit = st.one_of(
    st.builds(SetLimit, st.just(0), st.integers(1, 3), _full),
    st.builds(SetLimit, st.just(0), st.none() | st.integers(1, 3), _full, rate=_rate),
    st.builds(SetLimit, st.just(1), st.integers(1, 2), st.sampled_from(["wait", "reject"])),
    st.builds(SetLimit, st.just(1), st.none(), _full, rate=_rate),
    st.builds(SetLimit, st.just(2), st.none() | st.integers(1, 2), _full, st.just(2), _user, _rate),
)
delete_limit = st.builds(DeleteLimit, st.integers(0, 1)) | st.builds(DeleteLimit, st.just(2), st.just(2), _user)
