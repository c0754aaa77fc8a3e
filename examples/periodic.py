"""Recurring work: the server submits the tasks on schedule, even while no worker is up.

Run `treadle worker examples.periodic`, and list the schedules with `treadle schedules`. To run one without waiting for
its next time: `treadle schedules run tasks:look`.
"""

import shutil
from datetime import date, timedelta

from treadle import Context, Cron, Every, Options, task

MOST = 0.9
"""A disk counts as full when more than this share of it is used."""


@task(schedule=Every(60, missed="skip"), max_retries=0)
def look(ctx: Context) -> float:
    """Check each minute how full the disk is; a minute that was missed is skipped."""
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
    """Sum up on working days at half past nine; a digest that is not done an hour later fails."""
    today = date.today()  # noqa: DTZ011 - the day where the worker is
    return f"from {today - timedelta(days)} to {today}"
