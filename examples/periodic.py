"""Work that comes back: the server puts it in at its times, also while no worker lives.

Run `treadle worker examples.periodic`, and look at it with `treadle schedules`; `treadle schedules run tasks:look` does
not wait for the next time.
"""

import shutil
from datetime import date, timedelta

from treadle import Context, Cron, Every, Options, task

MOST = 0.9
"""The share of a disk from which on it counts as full."""


@task(schedule=Every(60, missed="skip"), max_retries=0)
def look(ctx: Context) -> float:
    """Looks each minute how full the disk is; a minute in which nobody could look is not made up for."""
    disk = shutil.disk_usage("/")
    share = disk.used / disk.total
    if share > MOST:
        ctx.log(f"the disk is {share:.0%} full", level="warning")
    return share


@task(
    schedule=Cron(
        "30 9 * * MON-FRI", tz="Europe/Berlin", arguments={"days": 7}, options=Options(priority=5), deadline=3600
    )
)
async def digest(days: int) -> str:
    """Sums up on working days at half past nine; after half past ten nobody wants it any more."""
    today = date.today()  # noqa: DTZ011 - the day where the worker is
    return f"from {today - timedelta(days)} to {today}"
