"""Treadle's server: keeps tasks in SQLite or PostgreSQL, hands them to workers, and tells observers what changes."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treadle_server.app import create_app
    from treadle_server.settings import Settings

__version__ = "0.1.0"
__all__ = ["Settings", "__version__", "create_app"]


def __getattr__(name: str) -> Any:
    """Import the application only when it is needed, so that the command line stays fast."""
    if name == "create_app":
        from treadle_server.app import create_app

        return create_app
    if name == "Settings":
        from treadle_server.settings import Settings

        return Settings
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
