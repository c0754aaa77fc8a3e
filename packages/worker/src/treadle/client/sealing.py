"""What a client does before it sends an encrypted task: its payload is checked against the schema, and sealed."""

from collections.abc import Container, Mapping
from typing import Any

from treadle.client.bound import Submittable
from treadle.client.requests import Requester, job_path
from treadle.encryption.fields import keys_of, sealed_payload
from treadle.encryption.sealer import Sealer
from treadle.errors import Forbidden, InvalidArguments, JobNotFound, NoCodec
from treadle.transport.answers import read
from treadle.wire.jobs import JobItem


def sealed_item(sealer: Sealer, item: dict[str, Any], task: Submittable) -> dict[str, Any]:
    """Return an item that submits the task with its payload sealed.

    Raises `NoCodec` and `InvalidArguments`, before anything is sent.
    """
    if not sealer.has_codec:
        raise NoCodec(
            f"tasks of {item['job']} are encrypted, and the client has no keys: Client(codec=…), or set"
            " TREADLE_ENCRYPTION_KEYS; nothing was sent"
        )
    keys = [limit.key for limit in task.limits]
    return {**item, "payload": sealed_payload(sealer, item["payload"], item["id"], keys)}


class NamedJobs:
    """Jobs that tasks are submitted to by name alone: whether they are encrypted only the server knows.

    It is asked once for each, and only by clients that have keys.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], JobItem] = {}

    def forget(self) -> None:
        """Ask again: a job may have changed."""
        self._known.clear()

    async def payload(
        self,
        client: Requester,
        job: str,
        room: str,
        payload: Mapping[str, Any],
        *,
        of: str | None = None,
        later: Container[str] = (),
    ) -> Mapping[str, Any]:
        """Return a payload as the job, which the client reads unless it is known, wants it: sealed, if it is encrypted.

        It may lack the arguments that come `later`, as results of other tasks.
        Raises `InvalidArguments` for one that does not satisfy the schema, which the server then can't check.
        """
        if not client.sealer.has_codec:
            return payload
        known = self._known.get((job, room))
        if known is None:
            try:
                known = read(JobItem, await client.request("GET", job_path(job, room)))
            except (JobNotFound, Forbidden):
                # The server says of the submit itself what is wrong with it.
                return payload
            self._known[job, room] = known
        if not known.encrypted:
            return payload
        check(known, payload, later)
        return sealed_payload(client.sealer, payload, of, keys_of(known))


def check(job: JobItem, payload: Mapping[str, Any], later: Container[str] = ()) -> None:
    """Check a payload against its job's schema; without jsonschema-rs, of the extra, that is left to the worker.

    The arguments that come `later` are not required.
    Raises `InvalidArguments`.
    """
    try:
        import jsonschema_rs
    except ImportError:
        return
    # As at the server: nothing that a schema refers to is fetched.
    schema = dict(job.schema_)
    if isinstance(required := schema.get("required"), list):
        schema["required"] = [name for name in required if name not in later]
    validator = jsonschema_rs.validator_for(schema, offline=True)
    for error in validator.iter_errors(payload):
        place = ".".join(["payload", *map(str, error.instance_path)])
        raise InvalidArguments(f"{job.full_name}: {place}: {error.message[:300]}")
