"""Encryption in a worker: claims are decrypted before their code sees them, and reports on them are encrypted."""

from collections.abc import Mapping
from typing import Any

from treadle.encryption.codec import Codec
from treadle.encryption.fields import opened_claim, opened_kept, sealed_report
from treadle.encryption.sealer import Sealer
from treadle.errors import EncryptionError, StaleRun, problem_named
from treadle.ids import RunKey
from treadle.tasks.dependencies import UNOPENED as UNOPENED_RESULT
from treadle.tasks.dependencies import replaced
from treadle.tasks.endings import Ending
from treadle.wire.sealed import UNOPENED, seal_of, seal_of_text, shown
from treadle.worker.lease import Held, log


def opened_results(sealer: Sealer, claim: dict[str, Any]) -> dict[str, Any]:
    """Return a claim in which the results and errors of the tasks that it waited for are decrypted, if a key fits.

    A result that no key opens counts as missing, with an error if the code reads it. A task that needs only the others'
    ends can run.
    """

    def opened(one: dict[str, Any]) -> dict[str, Any]:
        result, error = one.get("result"), one.get("error")
        if seal_of(result) is None and seal_of_text(error) is None:
            return one
        try:
            plain = {"result": sealer.open_value(result), "error": error and sealer.open_text(error)}
        except EncryptionError:
            return {
                **one,
                "result": None,
                "error": error and shown(error),
                UNOPENED_RESULT: seal_of(result) is not None,
            }
        return {**one, **plain}

    return replaced(claim, opened)


class RunSealing:
    """Decrypts and encrypts with the keys of one worker; `held` are the runs that it has at present."""

    def __init__(self, sealer: Sealer, held: Mapping[RunKey, Held]) -> None:
        self._sealer = sealer
        self._held = held

    @property
    def codec(self) -> Codec | None:
        """The keys, for requests that the code itself makes to the server."""
        return self._sealer.codec

    def open(self, held: Held) -> Ending | None:
        """Decrypt a run's claim in place; return how the run ends if no key opens it.

        The task may be retried: another worker may have the key, or this one after a restart.
        """
        if not held.claim.get("encrypted"):
            return None
        try:
            held.claim = opened_claim(self._sealer, held.claim)
        except EncryptionError as error:
            log.error("task %s, run %s, of %s can't start: %s", *held.key, held.claim["job_name"], error)
            return {"kind": "failed", "error": UNOPENED}
        return None

    def opened_step(self, held: Held, step: dict[str, Any]) -> dict[str, Any]:
        """Return a kept step with its result decrypted. Raises `NoCodec` and `CantDecrypt`."""
        if not held.claim.get("encrypted"):
            return step
        return opened_kept(self._sealer, step)

    def open_results(self, held: Held) -> dict[str, Any]:
        """Decrypt, where a key fits, the results of other tasks in a run's claim, and return the claim."""
        held.claim = opened_results(self._sealer, held.claim)
        return held.claim

    def seal(self, report: dict[str, Any]) -> dict[str, Any] | None:
        """Return a report as it is to be sent; None if nothing is to be sent.

        Whether a run that is over was encrypted is not known any more, so only the end of its code is reported. Raises
        `EncryptionError` for a checkpoint or step that can't be encrypted, and `StaleRun` for one of a run that is
        over.
        """
        if not self._sealer.has_codec:
            return report
        held = self._held.get((report["task_id"], report["run_id"]))
        if held is not None:
            return sealed_report(self._sealer, report) if held.claim.get("encrypted") else report
        ref = {"task_id": report["task_id"], "run_id": report["run_id"]}
        match report["kind"]:
            case "started" | "stopped":
                return report
            case "progress" | "logs":
                return None
            case "checkpoint" | "step":
                raise StaleRun(problem_named("stale-run", f"run {ref['run_id']} of task {ref['task_id']} has ended"))
            case _:
                return {**ref, "kind": "stopped"}
