"""Tasks that the server's side runs: jobs of the room `@internal`, on a taskiq broker.

    registry = InternalRegistry([resize, tidy])        # runs them in the server's own process

`treadle server --internal module:registry` serves their jobs. Needs the extra `treadle[internal]`.
"""

from treadle.internal.registry import InternalRegistry

__all__ = ["InternalRegistry"]
