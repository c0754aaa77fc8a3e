"""What a server and executors in other processes share: tasks, and a broker on Valkey that the environment names."""

import os

from taskiq_redis import RedisStreamBroker

from tests.internal import jobs
from treadle import task
from treadle.internal import InternalRegistry


@task(room="@internal")
def where() -> list[int | str | None]:
    return [os.getpid(), os.environ.get("TREADLE_TOKEN")]


# From the first message on: else those are lost that come before the consumers' group is made.
broker = RedisStreamBroker(os.environ["TREADLE_TEST_VALKEY"], consumer_id="0")
registry = InternalRegistry([where, jobs.add, jobs.gated, jobs.counts], broker=broker)
