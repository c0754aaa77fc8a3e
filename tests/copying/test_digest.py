"""The checksum of rows: the same for JSON in another form and in any order, another for anything else (F8)."""

import json

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from treadle_server.copying.digest import Digest, canonical, json_places
from treadle_server.store.tables import task_specs, tokens

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def digest(*rows: tuple[object, ...]) -> str:
    found = Digest()
    found.add(rows, [1])
    return str(found)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"a":1,"b":[2]}', '{"b": [2], "a": 1}'),
        ("1e2", "100"),
        ("1.50", "1.5"),
        ("1e400", f"1{'0' * 400}"),
        ("-0.0", "0.0"),
        ("123456789012345678901234567890.5", "1234567890123456789012345678905e-1"),
        ('"\\u00fc\\/"', '"ü/"'),
    ],
)
def test_the_same_json_in_another_form_is_the_same(one: str, other: str) -> None:
    assert canonical(one) == canonical(other)


@pytest.mark.parametrize(
    ("one", "other"), [("1", "2"), ("0.1", '"0.1"'), ("1", '"1"'), ("[1,2]", "[2,1]"), ("0.1", "0.10000000000000001")]
)
def test_other_json_is_not(one: str, other: str) -> None:
    assert canonical(one) != canonical(other)


@given(VALUES)
def test_any_json_has_one_form(value: object) -> None:
    compact = json.dumps(value, separators=(",", ":"))

    assert canonical(json.dumps(value, indent=1, ensure_ascii=False)) == canonical(compact)
    assert canonical(canonical(compact)).count("\n") == 0


def test_the_order_of_rows_does_not_matter_and_everything_else_does() -> None:
    rows = (1, '{"a": 1}', b"\x00", None, True), (2, None, b"\x01", "x", False)

    assert digest(*rows) == digest(*reversed(rows))
    others = [(rows[0],), (rows[0], rows[0]), ((1, '{"a": 2}', *rows[0][2:]), rows[1])]
    assert len({digest(*rows), *(digest(*other) for other in others)}) == 4


def test_the_columns_that_hold_json_are_found() -> None:
    assert [tokens.columns.keys()[i] for i in json_places(tokens)] == ["scopes"]
    assert "payload" in {task_specs.columns.keys()[i] for i in json_places(task_specs)}
    assert not json_places(sa.Table("x", sa.MetaData(), sa.Column("text", sa.Text)))


@pytest.mark.postgres
async def test_postgres_gives_back_what_has_the_same_form(postgres_database: str) -> None:
    import asyncpg

    connection = await asyncpg.connect(postgres_database)
    for text in (
        '{"b":1e2,"a":[1.0,1e-7,-0.0,0.1e-3],"a":2}',
        "1e300",
        '"\\u00e9\\t"',
        "[12345678901234567890123, 1.10]",
    ):
        back = await connection.fetchval("SELECT $1::text::jsonb::text", text)
        assert canonical(back) == canonical(text), (text, back)
    await connection.close()


pytestmark = pytest.mark.anyio
