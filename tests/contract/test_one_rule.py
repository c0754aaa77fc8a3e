"""Each rule stands once: what repeats one is found in the code itself."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import pytest

from treadle.transport.http import request_of
from treadle.wire.fields import Request
from treadle.wire.operations import OPERATIONS
from treadle.wire.options import (
    CLEARED,
    OF_JOB,
    OPTIONS,
    GivenOptions,
    OfJob,
    OfTask,
    ShownOptions,
    TaskOptions,
    TaskTimes,
    TaskTraits,
)
from treadle.wire.status import LEASED, OPEN, TERMINAL, WAITING, Ended, Leased, Status
from treadle.wire.transitions import ADMITS, LEADS_TO, TRANSITIONS, Action, Verb
from treadle_server.api.routes import BY_NAME, ENDPOINTS
from treadle_server.live.route import OPS

PACKAGES = Path(__file__).parents[2] / "packages"
SOURCES = sorted(path for path in PACKAGES.glob("*/src/**/*.py") if "migrations" not in path.parts)

HOME = {"wire/status.py", "wire/transitions.py"}

QUOTED = {
    "tables/of_tasks.py": "the text of constraints and partial indexes, as the migrations wrote it",
    "transaction/hot.py": "statements by hand: the text that partial indexes are found by",
    "fast_path/reports.py": "the same statements' other side",
}
"""Where a list of statuses is written out all the same, and why."""

_SQL_LIST = re.compile(r"\(\s*((?:'\w+'\s*,\s*)+'\w+')\s*\)")


def of_source(path: Path) -> str:
    return "/".join(path.parts[-2:])


def status_in(node: ast.expr, known: dict[str, Status]) -> Status | None:
    """The status that an expression names: as a text, as `Status.PAUSED`, as `_S.PAUSED` or `Status.PAUSED.value`."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return known.get(node.value)
    if isinstance(node, ast.Attribute) and node.attr == "value":
        return status_in(node.value, known)
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in {"Status", "_S"}:
        return Status[node.attr]
    return None


def lists_in(source: str) -> Iterator[tuple[int, frozenset[Status]]]:
    """The lists of at least two statuses in a module, and nothing else in them: in Python, in types and in SQL."""
    known = {status.value: status for status in Status}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Set | ast.List | ast.Tuple):
            given = [one for part in node.elts if (one := status_in(part, known)) is not None]
            if 1 < len(given) == len(node.elts):
                yield node.lineno, frozenset(given)
        elif isinstance(node, ast.Call):
            given = [one for arg in node.args if (one := status_in(arg, known)) is not None]
            if len(given) > 1:
                yield node.lineno, frozenset(given)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            for found in _SQL_LIST.finditer(node.value):
                words = re.findall(r"'(\w+)'", found[1])
                if set(words) <= known.keys():
                    yield node.lineno, frozenset(known[word] for word in words)


RULES = {
    "LEASED": LEASED,
    "OPEN": OPEN,
    "TERMINAL": TERMINAL,
    "WAITING": WAITING,
    **{f"ADMITS[{action!r}]": statuses for action, statuses in ADMITS.items()},
    **{f"LEADS_TO[{action!r}]": statuses for action, statuses in LEADS_TO.items()},
    **{f"TRANSITIONS[{verb!s}].sources": one.sources for verb, one in TRANSITIONS.items()},
    **{f"TRANSITIONS[{verb!s}].targets": one.targets for verb, one in TRANSITIONS.items()},
}


def names_of(statuses: frozenset[Status]) -> list[str]:
    return [name for name, one in RULES.items() if one == statuses]


def test_no_other_list_of_statuses_repeats_the_table_of_transitions() -> None:
    repeated = [
        f"{of_source(path)}:{line}: {', '.join(sorted(found))} is {' or '.join(names_of(found))}"
        for path in SOURCES
        if of_source(path) not in HOME | QUOTED.keys()
        for line, found in lists_in(path.read_text())
        if found in RULES.values()
    ]

    assert repeated == []


def test_what_is_written_out_all_the_same_still_is() -> None:
    lists = {of_source(path): list(lists_in(path.read_text())) for path in SOURCES if of_source(path) in QUOTED}

    assert [name for name in QUOTED if not lists.get(name)] == []


@pytest.mark.parametrize(
    "source",
    [
        "ENDED = {Status.CANCELLED, Status.COMPLETED, Status.FAILED}",
        "ENDED = ('completed', 'failed', 'cancelled')",
        "def ended(status: Literal['completed', 'failed', 'cancelled']): ...",
        "_S = Status\nENDED = frozenset([_S.CANCELLED, _S.COMPLETED.value, 'failed'])",
        "status_in(Status.COMPLETED, Status.FAILED, Status.CANCELLED)",
        "text(\"status IN ('completed', 'failed',\\n'cancelled')\")",
    ],
)
def test_a_repeated_list_is_found_however_it_is_written(source: str) -> None:
    assert [found for _, found in lists_in(source)] == [TERMINAL]


def test_no_message_tells_seconds_in_powers_of_ten() -> None:
    """Python's `g` says `2.592e+06` of thirty days: `treadle.wire.amounts` says how seconds are told."""
    told = re.compile(r"(:g\}|%g) s\b")

    assert [of_source(path) for path in SOURCES if told.search(path.read_text())] == []


def test_the_words_for_several_states_are_those_of_their_types() -> None:
    assert set(get_args(Ended)) == TERMINAL
    assert set(get_args(Leased)) == LEASED
    assert set(Status) == TERMINAL | OPEN
    assert LEASED | WAITING | {Status.PAUSED} == OPEN


def test_each_action_is_carried_out_by_the_verbs_of_its_name() -> None:
    for action in get_args(Action):
        verb = TRANSITIONS[Verb(action)]
        assert verb.sources <= ADMITS[action]
        assert verb.targets <= LEADS_TO[action]
    assert ADMITS["pause"] == WAITING | LEASED
    assert LEADS_TO["rerun"] == {Status.PENDING, Status.BLOCKED} | LEASED


def test_what_type_checkers_are_told_of_the_options_is_what_the_models_say() -> None:
    assert OfJob.__annotations__.keys() == TaskOptions.model_fields.keys() == OF_JOB.keys()
    assert OfTask.__annotations__.keys() == TaskTimes.model_fields.keys() == OPTIONS.keys()
    assert GivenOptions.__annotations__.keys() == OPTIONS.keys() | {"id", "depends_on", "flow_id", "flow_name"}
    assert ShownOptions.model_fields.keys() == TaskTraits.model_fields.keys()


def test_none_stands_beside_the_type_of_what_null_takes_away_and_of_nothing_else() -> None:
    of_need = {name for name, kind in OfTask.__annotations__.items() if "N" in {str(one)[1:] for one in get_args(kind)}}

    assert of_need == CLEARED


def test_each_option_says_what_it_is_and_holds_where_nobody_says_anything() -> None:
    assert [name for name, option in OPTIONS.items() if option.help.endswith(".") or option.help[0].isupper()] == []
    TaskOptions.model_validate({name: option.default for name, option in OF_JOB.items()})
    assert {name for name, option in OF_JOB.items() if option.default is None} == CLEARED & OF_JOB.keys()


OF_OPTIONS = {
    "wire/options.py": "where they are declared",
    "domain/tasks.py": "a task's own fields",
    "tables/of_tasks.py": "its columns",
    "transaction/hot.py": "its columns, by hand",
}
"""Where all options may be named one by one."""


def test_no_other_module_names_the_options_one_by_one() -> None:
    naming = {of_source(path) for path in SOURCES if OF_JOB.keys() <= set(re.findall(r"\w+", path.read_text()))}

    assert naming <= OF_OPTIONS.keys()


def test_each_operation_is_bound_once_and_tried_in_its_place() -> None:
    assert [endpoint.name for endpoint in ENDPOINTS] == list(OPERATIONS)


OF_THE_SOCKET = {
    "await": "results are pushed",
    "unawait": "likewise",
    "return": "a session's own",
    "watch": "an observer's",
    "unwatch": "an observer's",
    "every": "an observer's",
    "submit_each": "over HTTP all or none",
    "remove_worker": "close, of another worker than the session's own",
    "action": "over HTTP a route for each verb",
    "edit": "over HTTP the route takes reports too",
    "ping": "over HTTP /healthz, which needs no token",
}
"""Operations of the socket that need something of their own, and why."""


def test_the_socket_needs_for_an_operation_what_its_route_needs() -> None:
    shared = OPS.keys() - OF_THE_SOCKET.keys()

    assert {name: OPS[name].permission for name in shared} == {name: BY_NAME[name].permission for name in shared}


@pytest.mark.parametrize(
    ("op", "fields", "request_line"),
    [
        ("submit", {"room": "lab", "tasks": [], "wait": True, "brief": True}, "POST /v1/rooms/lab/tasks {'tasks': []}"),
        ("submit_each", {"room": "@global", "tasks": []}, "POST /v1/rooms/@global/tasks {'tasks': []}"),
        ("get", {"id": "a/b"}, "GET /v1/tasks/a%2Fb None"),
        ("history", {"id": "a"}, "GET /v1/tasks/a/events None"),
        ("action", {"id": "a", "action": "cancel"}, "POST /v1/tasks/a/cancel {}"),
        ("action", {"id": "a", "action": "resolve", "error": "e"}, "POST /v1/tasks/a/resolve {'error': 'e'}"),
        ("edit", {"id": "a", "priority": 3}, "PATCH /v1/tasks/a {'priority': 3}"),
        ("job", {"job": "lab:tasks:add", "paused": True}, "PATCH /v1/rooms/lab/jobs/lab:tasks:add {'paused': True}"),
        ("register", {"room": "lab", "name": "add"}, "PUT /v1/rooms/lab/jobs {'name': 'add'}"),
        ("send", {"task_id": "a", "name": "b/c", "id": "1"}, "POST /v1/tasks/a/messages/b%2Fc {'id': '1'}"),
        ("ping", {}, "GET /healthz None"),
    ],
)
def test_plain_http_says_what_the_socket_would(op: str, fields: dict[str, Any], request_line: str) -> None:
    method, path, body = request_of(op, fields)

    assert f"{method} {path} {body}" == request_line


def requests_under(model: type[Request] = Request) -> Iterator[type[Request]]:
    """The models of what is asked, of the wire and of the socket's own operations."""
    for one in model.__subclasses__():
        yield one
        yield from requests_under(one)


def is_lax(annotation: Any) -> bool:
    """Whether a flag or a number may be something that stands for it: what says otherwise stands in `Annotated`."""
    if get_origin(annotation) is Annotated:
        return False
    return annotation in {bool, int, float} or any(map(is_lax, get_args(annotation)))


def test_flags_and_numbers_that_are_asked_are_strict_over_http_and_on_the_socket() -> None:
    given = {
        f"{model.__name__}.{name}": is_lax(field.annotation)
        and not any(getattr(one, "strict", False) for one in field.metadata)
        for model in requests_under()
        for name, field in model.model_fields.items()
    }

    assert len(given) > 200
    assert [name for name, is_guessed in given.items() if is_guessed] == []


_MOVE = re.compile(
    r"UPDATE tasks SET status = '(\w+)'.*?\bWHERE\b(.*?)(?=\bUPDATE\b|\bINSERT\b|\bRETURNING\b|$)", re.DOTALL
)
_GUARD = re.compile(r"\bstatus\s*(?:=\s*(?:'(\w+)'|\$\d+|ANY)|IN\s*\(([^)]*)\))")


def moves_in(source: str) -> Iterator[tuple[str, str]]:
    """The statements by hand that give tasks another status: to which, and under which conditions."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from _MOVE.findall(node.value)


def leads_to(status: Status) -> set[Status]:
    """From where the table leads to a status, also through a start that is told with an end."""
    sources = {source for one in TRANSITIONS.values() if status in one.targets for source in one.sources}
    return sources | TRANSITIONS[Verb.START].sources if sources & TRANSITIONS[Verb.START].targets else sources


def test_a_statement_by_hand_names_the_statuses_that_it_leaves_and_the_table_leads_from_them() -> None:
    moves = [one for path in SOURCES if "store" in path.parts for one in moves_in(path.read_text())]

    for to, conditions in moves:
        guard = _GUARD.search(conditions)
        assert guard is not None, f"a task becomes {to} whatever it was: {conditions}"
        left = set(re.findall(r"\w+", guard[1] or guard[2] or ""))
        assert left <= leads_to(Status(to)), f"the table does not lead from {left} to {to}"
    assert {"claimed", "running", "completed"} <= {to for to, _ in moves}


def test_a_statement_without_its_guard_is_found() -> None:
    (move,) = moves_in("text(\"UPDATE tasks SET status = 'running', version = ? WHERE seq = ? AND version = ?\")")

    assert _GUARD.search(move[1]) is None
    assert leads_to(Status.COMPLETED) == LEASED | {Status.PAUSED, Status.FAILED}
