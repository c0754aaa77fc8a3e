"""Makes the tables of a database, by `treadle migrate`."""

from treadle_server.testing import run


class SqlStore:
    """A store that can be opened, which brings its schema up to date."""

    def __init__(self, url: str) -> None:
        self._url = url

    async def open(self) -> None:
        await run("migrate", "--database-url", self._url)

    async def close(self) -> None:
        """Nothing is open."""
