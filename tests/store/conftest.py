"""The store's tests speak the engine's small language, and some begin with a database without a table."""

from collections.abc import Iterator

import pytest

from tests.conftest import _database_of, _postgres_database
from tests.engine.conftest import shop

__all__ = ["shop"]


@pytest.fixture
def old_url(postgres_url: str) -> Iterator[str]:
    """The URL of a database without a table on PostgreSQL."""
    with _postgres_database(postgres_url, "template0") as name:
        yield _database_of(postgres_url, name)
