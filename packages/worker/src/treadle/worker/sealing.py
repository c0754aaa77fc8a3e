"""Claims of encrypted tasks are opened before their code sees them, and what is reported of them is sealed."""

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
    """Return a claim with the results and errors opened of those that its task waited for, where a key fits.

    One that no key opens is no result: who asks for it is told so. A task that needs no more than the end runs.
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
    """Opens and seals by the keys of one worker; `held` are the runs that it has at this moment."""

    def __init__(self, sealer: Sealer, held: Mapping[RunKey, Held]) -> None:
        self._sealer = sealer
        self._held = held

    @property
    def codec(self) -> Codec | None:
        """The keys, for what the code asks of the server itself."""
        return self._sealer.codec

    def open(self, held: Held) -> Ending | None:
        """Let a run's claim say in plain what was submitted; return how the run ends when no key opens it.

        It may be tried again: another worker may have the key, or this one when it is started anew.
        """
        if not held.claim.get("encrypted"):
            return None
        try:
            held.claim = opened_claim(self._sealer, held.claim)
        except EncryptionError as error:
            log.error("task %s, run %s, of %s can't begin: %s", *held.key, held.claim["job_name"], error)
            return {"kind": "failed", "error": UNOPENED}
        return None

    def opened_step(self, held: Held, step: dict[str, Any]) -> dict[str, Any]:
        """Return a kept step with its result opened. Raises `NoCodec` and `CantDecrypt`."""
        if not held.claim.get("encrypted"):
            return step
        return opened_kept(self._sealer, step)

    def open_results(self, held: Held) -> dict[str, Any]:
        """Let a run's claim say in plain what those returned that its task waited for, where a key fits; return it."""
        held.claim = opened_results(self._sealer, held.claim)
        return held.claim

    def seal(self, report: dict[str, Any]) -> dict[str, Any] | None:
        """Return a report as it is to be sent; None when nothing is.

        Of a run that is over here one can't say whether it was encrypted: of that nothing is told but that its code
        has ended. Raises `EncryptionError` for a checkpoint or step that can't be sealed, `StaleRun` for one of such a
        run.
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
                raise StaleRun(problem_named("stale-run", f"run {ref['run_id']} of task {ref['task_id']} is over"))
            case _:
                return {**ref, "kind": "stopped"}
