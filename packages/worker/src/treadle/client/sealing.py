"""What a client does before it sends an encrypted task: it checks the payload against the schema and encrypts it."""

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
    """Return an item that submits the task with its payload encrypted.

    Raises `NoCodec` and `InvalidArguments`, before anything is sent.
    """
    if not sealer.has_codec:
        raise NoCodec(
            f"tasks of {item['job']} are encrypted, but the client has no keys: use Client(codec=…), or set"
            " TREADLE_ENCRYPTION_KEYS; nothing was sent"
        )
    keys = [limit.key for limit in task.limits]
    return {**item, "payload": sealed_payload(sealer, item["payload"], item["id"], keys)}


class NamedJobs:
    """Jobs that tasks are submitted to by name; only the server knows whether they are encrypted.

    It is asked once for each job, and only by clients that have keys.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], JobItem] = {}

    def forget(self) -> None:
        """Forget what is known, so that jobs, which may have changed, are asked for again."""
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
        """Return a payload as the job needs it, encrypted or plain; the client reads the job unless it is known.

        Arguments in `later` may be missing from it: they come as results of other tasks. Raises `InvalidArguments` if
        it does not satisfy the schema, which the server can't check once it is encrypted.
        """
        if not client.sealer.has_codec:
            return payload
        known = self._known.get((job, room))
        if known is None:
            try:
                known = read(JobItem, await client.request("GET", job_path(job, room)))
            except (JobNotFound, Forbidden):
                # The server's answer to the submit itself says what is wrong.
                return payload
            self._known[job, room] = known
        if not known.encrypted:
            return payload
        check(known, payload, later)
        return sealed_payload(client.sealer, payload, of, keys_of(known))


def check(job: JobItem, payload: Mapping[str, Any], later: Container[str] = ()) -> None:
    """Check a payload against its job's schema; if jsonschema-rs, an extra, is not installed, the worker does.

    Arguments in `later` are not required. Raises `InvalidArguments`.
    """
    try:
        import jsonschema_rs
    except ImportError:
        return
    # As on the server, references in a schema are never fetched.
    schema = dict(job.schema_)
    if isinstance(required := schema.get("required"), list):
        schema["required"] = [name for name in required if name not in later]
    validator = jsonschema_rs.validator_for(schema, offline=True)
    for error in validator.iter_errors(payload):
        place = ".".join(["payload", *map(str, error.instance_path)])
        raise InvalidArguments(f"{job.full_name}: {place}: {error.message[:300]}")
