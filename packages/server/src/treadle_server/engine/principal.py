"""Who asks, as commands and handlers name it; what it is and may do stands in `treadle_server.access`."""

from treadle_server.access.principal import SYSTEM, Principal

__all__ = ["SYSTEM", "Principal"]
