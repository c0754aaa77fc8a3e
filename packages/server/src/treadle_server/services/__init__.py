"""What runs beside the requests: the sweeper, the promoter, the poll behind every wake-up."""

from treadle_server.services.run import run_services

__all__ = ["run_services"]
