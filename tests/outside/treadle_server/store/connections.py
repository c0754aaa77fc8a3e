"""As in the server, whose engines share their statements from test to test; here each server has its own."""


def create_engine(url: str) -> None:
    """Nothing is opened here."""


def create_async_engine(url: str) -> None:
    """Nothing is opened here."""
