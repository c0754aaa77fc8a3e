"""The services' tests speak the engine's small language."""

from tests.engine.conftest import shop

__all__ = ["shop"]
