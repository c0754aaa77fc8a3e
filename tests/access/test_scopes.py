"""The algebra of scopes (C8, G10)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle_server.access.principal import Principal
from treadle_server.access.rights import claim_task, plain_user_may
from treadle_server.access.scopes import (
    LONGEST_SCOPE,
    MOST_SCOPES,
    check_new,
    check_scopes,
    satisfies,
)
from treadle_server.errors import Forbidden, ValidationFailed

scopes = st.builds(lambda text, star: text + star, st.text("ab:/", max_size=5), st.sampled_from(["", "*"])).filter(bool)
sets = st.frozensets(scopes, max_size=5)


@pytest.mark.parametrize(
    ("held", "wanted", "expected"),
    [
        ("a", "a", True),
        ("a*", "a", True),
        ("a*", "ab", True),
        ("a*", "a*", True),
        ("a*", "ab*", True),
        ("*", "a*", True),
        ("*", "*", True),
        ("a", "ab", False),
        ("a", "a*", False),
        ("ab*", "a*", False),
        ("a*", "*", False),
        ("a*b", "axb", False),
        ("a*b", "a*b", True),
        ("queue:read:lab", "queue:read:lab2", False),
    ],
)
def test_a_star_at_the_end_of_what_is_held_satisfies_any_suffix_c8(held: str, wanted: str, expected: bool) -> None:
    assert satisfies(frozenset({held}), wanted) is expected


@given(sets, scopes, st.text("ab:/", max_size=5))
def test_who_satisfies_a_pattern_satisfies_everything_that_it_stands_for_c8(held, wanted, suffix) -> None:
    if wanted.endswith("*") and satisfies(held, wanted):
        assert satisfies(held, wanted[:-1] + suffix)


@given(scopes, scopes, scopes)
def test_satisfying_is_reflexive_and_transitive_c8(one, two, three) -> None:
    assert satisfies(frozenset({one}), one)
    if satisfies(frozenset({one}), two) and satisfies(frozenset({two}), three):
        assert satisfies(frozenset({one}), three)


@given(sets, st.sampled_from(["plain", "superuser", "scoped"]), sets, scopes)
def test_a_narrowed_request_may_nothing_that_it_might_not_before_g10(held, kind, to, wanted) -> None:
    rights = frozenset(f"queue:read:{scope}" for scope in held)
    principal = Principal("u", superuser=kind == "superuser", scopes=rights if kind == "scoped" else None)
    asked = {f"queue:read:{scope}" for scope in to}
    try:
        narrowed = principal.narrowed(asked)
    except Forbidden:
        assert not all(principal.may(scope) for scope in asked)
    else:
        assert not narrowed.superuser
        for scope in (f"queue:read:{wanted}", wanted):
            assert principal.may(scope) or not narrowed.may(scope)


def test_nothing_is_satisfied_by_nothing_c8() -> None:
    assert not satisfies(frozenset(), "a")


@pytest.mark.parametrize(
    ("scope", "said"),
    [
        ("", "empty"),
        ("a**", "contains **"),
        ("**", "contains **"),
        ("a**b", "contains **"),
        ("a b", "space"),
        ("a\tb", "control"),
        ("a\x00", "control"),
        ("\ud800", "control"),
        ("a\u2028b", "control"),
        ("x" * (LONGEST_SCOPE + 1), "characters"),
    ],
)
def test_what_is_no_scope_is_refused_with_its_place_c8_g9(scope: str, said: str) -> None:
    with pytest.raises(ValidationFailed, match=r"^scopes\.1: ") as raised:
        check_scopes(["queue:read:lab", scope])

    assert said in raised.value.detail


@pytest.mark.parametrize(
    ("scope", "said"),
    [
        ("queue:claim-wrok:*", "one of Treadle's scopes: write queue:claim-work:<pool>"),
        ("queue:read", "one of Treadle's scopes: write queue:read:<room>"),
        ("queue:cancel-task:lab", "one of Treadle's scopes: write queue:control-task:<room>"),
        ("queue:zzz", "write queue:read:<room> or queue:create-task:<room>/<job> or "),
        ("queue:read:", "allows nothing: write queue:read:<room>"),
        ("queue:read:@globl", "allows nothing ('@globl' is not a room: "),
        ("queue:create-task:lab", "allows nothing: write queue:create-task:<room>/<job>"),
        ("queue:create-task:lab/resize", "allows nothing ('resize' is not a job's full name: "),
        ("queue:worker-id:farm", "allows nothing: write queue:worker-id:<group>/<name>"),
        ("queue:register-job:@internal", "allows nothing, because only superusers register jobs of @internal: "),
        ("queue:metrics:lab", "allows nothing, because metrics cover all rooms: write queue:metrics"),
    ],
)
def test_a_scope_of_treadles_own_that_would_allow_nothing_is_refused_where_it_is_given(scope: str, said: str) -> None:
    """It was kept, and found out by who was refused with it."""
    with pytest.raises(ValidationFailed, match=r"^scopes\.1: ") as raised:
        check_new(["queue:read:lab", scope])

    assert said in raised.value.detail
    assert check_scopes([scope]) == (scope,)


@pytest.mark.parametrize(
    "scope",
    [
        *("*", "q*", "queue:*", "queue:re*", "queue:read*", "queue:read:*", "queue:read:@gl*", "queue:read:lab"),
        *("queue:create-task:lab*", "queue:create-task:lab/*", "queue:create-task:lab/@global:tasks:add"),
        *("queue:worker-id:-/-", "queue:worker-id:farm/*", "queue:claim-work:-", "queue:metrics", "queue:metrics*"),
        *(claim_task("x", 0), "aws:deploy:site", "queued:read:lab"),
    ],
)
def test_what_treadle_knows_and_what_is_others_is_given(scope: str) -> None:
    assert check_new([scope]) == (scope,)


def test_scopes_are_kept_in_their_order_each_once_and_not_too_many_c8() -> None:
    assert check_scopes(["b", "a*", "b", "*"]) == ("b", "a*", "*")
    assert len(check_scopes([f"s{i}" for i in range(MOST_SCOPES)])) == MOST_SCOPES
    with pytest.raises(ValidationFailed, match="101"):
        check_scopes(["a"] * (MOST_SCOPES + 1))


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        ("queue:register-job:lab", True),
        ("queue:register-job:lab*", True),
        ("queue:register-job:@global", False),
        ("queue:register-job:@internal", False),
        ("queue:register-job:*", False),
        ("queue:register-job:", False),
        ("queue:create-task:lab/lab:tasks:add", True),
        ("queue:create-task:lab/*", True),
        ("queue:create-task:@global/@global:tasks:add", True),
        ("queue:create-task:@global/*", True),
        ("queue:create-task:@global*", False),
        ("queue:create-task:@internal/@internal:tasks:add", False),
        ("queue:create-task:*", False),
        ("queue:read:lab", True),
        ("queue:claim-work:gpu", True),
        ("queue:worker-id:a/b", True),
        ("queue:control-task:lab", False),
        ("queue:claim-task:x/0", False),
        ("queue:*", False),
        ("*", False),
        ("anything", False),
    ],
)
def test_a_plain_user_has_the_rights_of_plain_rooms_and_submits_to_global_c8_z3(scope: str, expected: bool) -> None:
    assert plain_user_may(scope) is expected


def test_a_superuser_may_everything_and_stays_one_when_narrowed_to_everything() -> None:
    root = Principal("root", superuser=True)

    assert root.may("*")
    assert root.narrowed(["*"]) is root
    assert root.narrowed(["a*"]) == Principal("root", scopes=frozenset({"a*"}))
