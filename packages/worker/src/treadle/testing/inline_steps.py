"""Steps and checkpoints of a task that runs inline: sent to the server at once, as any other worker does."""

from typing import Any

from treadle.encryption.fields import opened_kept, sealed_report
from treadle.encryption.sealer import Sealer
from treadle.errors import BadValue, PayloadTooLarge, ValidationFailed
from treadle.worker.link import HttpLink


class InlineSteps:
    """The steps and checkpoint of one claim."""

    def __init__(self, link: HttpLink, sealer: Sealer, claim: dict[str, Any]) -> None:
        self._link = link
        self._sealer = sealer
        self._is_encrypted = bool(claim.get("encrypted"))
        self._ref = {"task_id": claim["id"], "run_id": claim["run_id"]}

    async def kept(self) -> list[dict[str, Any]]:
        """Return every step that the task keeps."""
        found: list[dict[str, Any]] = []
        while True:
            page = await self._link.steps(self._ref, len(found))
            found += [self._opened(item) for item in page["items"]]
            if len(found) >= page["total"] or not page["items"]:
                return found

    async def keep(self, step: dict[str, Any]) -> None:
        """Keep a step; raises as `save` does."""
        await self._told({"kind": "step", **step}, f"step {step['step']!r}")

    async def save(self, checkpoint: Any) -> None:
        """Store a checkpoint.

        Raises a `ProblemError`, `BadValue` when it can't be kept, and `EncryptionError` when it can't be encrypted.
        """
        await self._told({"kind": "checkpoint", "checkpoint": checkpoint}, "checkpoint")

    async def _told(self, said: dict[str, Any], name: str) -> None:
        report = {**self._ref, **said}
        sealed = sealed_report(self._sealer, report) if self._is_encrypted else report
        assert sealed is not None
        try:
            await self._link.report_one(sealed)
        except (PayloadTooLarge, ValidationFailed) as error:
            raise BadValue(f"{name}: {error}") from None

    async def receive(self, step: dict[str, Any]) -> dict[str, Any] | None:
        """Return the step that has received a message; None when no message waits."""
        answer = await self._link.receive({**self._ref, **step})
        return None if answer["item"] is None else self._opened(answer["item"])

    def _opened(self, step: dict[str, Any]) -> dict[str, Any]:
        return opened_kept(self._sealer, step) if self._is_encrypted else step
