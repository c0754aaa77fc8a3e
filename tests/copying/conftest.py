"""Databases to copy from and to, and all that stands in one."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import _database_of, _postgres_database
from treadle_server.copying import copy
from treadle_server.copying.contents import TABLES
from treadle_server.copying.digest import canonical, json_places
from treadle_server.store.urls import parse_url

Make = Callable[[str], str]


@pytest.fixture
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    """Give the URL of a new database of a kind: without a file, or without a table."""
    numbers = count()
    is_wanted = request.node.get_closest_marker("postgres") is not None
    postgres: str = request.getfixturevalue("postgres_url") if is_wanted else ""
    with ThreadPoolExecutor(1) as aside, ExitStack() as stack:

        def made(kind: str) -> str:
            if kind == "sqlite":
                return f"sqlite:///{tmp_path}/{next(numbers)}.db"
            # Its statements have a loop of their own, and a test's may be running.
            making = aside.submit(stack.enter_context, _postgres_database(postgres, "template0"))
            return _database_of(postgres, making.result())

        yield made


KINDS = [
    pytest.param("sqlite", "sqlite"),
    pytest.param("sqlite", "postgres", marks=pytest.mark.postgres),
    pytest.param("postgres", "sqlite", marks=pytest.mark.postgres),
    pytest.param("postgres", "postgres", marks=pytest.mark.postgres),
]
"""The four directions."""

THERE_AND_BACK = [
    pytest.param(*kind.values, marks=kind.marks if kind is KINDS[1] else [*kind.marks, pytest.mark.crossed])
    for kind in KINDS
]
"""The same, of which the default run takes SQLite to PostgreSQL: for tests that go back too, or are long."""


def directions_and(*values: object) -> list[object]:
    """Each direction with one of the values in turn; with the others in `nox -s crossed`."""
    return [
        pytest.param(
            *kind.values, value, marks=[*kind.marks, *([] if n % len(values) == place else [pytest.mark.crossed])]
        )
        for n, kind in enumerate(KINDS)
        for place, value in enumerate(values)
    ]


ONE = ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]


async def everything(url: str) -> dict[str, list[Any]]:
    """All rows of a database, in the one form that both kinds have."""
    found: dict[str, list[Any]] = {}
    async with copy._source(parse_url(url)) as place:
        for table in TABLES:
            places = json_places(table)
            found[table.name] = [
                [canonical(value) if i in places and value is not None else value for i, value in enumerate(row)]
                async for batch in place.read(table)
                for row in batch
            ]
    return found


def said(url: str) -> dict[str, list[Any]]:
    """Return the same, outside of a loop."""
    return asyncio.run(everything(url))
