"""What is answered to a command whose rows were not written, however often it was tried."""

import logging

from sqlalchemy.exc import IntegrityError

from treadle_server.errors import StoreUnavailable
from treadle_server.store.base import LostUpdate
from treadle_server.store.failures import in_brief
from treadle_server.store.store import SqlStore

log = logging.getLogger(__name__)


async def outrun(store: SqlStore, error: IntegrityError | LostUpdate) -> Exception:
    """Return `StoreUnavailable` with what may be to blame: other writers, or additions to the tables.

    A trigger that returns NULL, and a rule, keep a row out without a word. It is the error itself when there are none
    and other writers can't be the cause.
    """
    added = " or ".join(await store.additions())
    if not added and isinstance(error, IntegrityError):
        return error
    told = "other writers were faster every time"
    if added:
        told += f", or {added} keeps Treadle's rows out: drop it, or have it let them in"
    told += f" ({in_brief(error)}); nothing was changed, try again"
    log.warning("%s", told)
    return StoreUnavailable(told)
