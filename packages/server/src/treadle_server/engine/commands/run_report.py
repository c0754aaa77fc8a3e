"""What a worker says of one run, and what makes two reports the same report."""

import json
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b

import orjson

from treadle.wire.runs import LogLine
from treadle.wire.status import Reason
from treadle_server.domain.encryption import check_words, digests_in, identity
from treadle_server.engine.commands.steps import StepReport


@dataclass(slots=True, kw_only=True)
class RunReport:
    """What is reported; `kind` says which fields count. JSON fields are text."""

    kind: str
    starts: bool = False
    """Whether the start, which was not reported before, is told with it."""
    result: str | None = None
    error: str | None = None
    traceback: str | None = None
    reason: Reason | None = None
    usage: float | None = None
    retry_after: float | None = None
    checkpoint: str | None = None
    progress: str | None = None
    detail: str | None = None
    lines: list[LogLine] | None = None
    code_runs: bool = False
    """Whether the code runs on though its run failed, as a thread does that ignores its timeout: it keeps its slot."""
    step: StepReport | None = None
    """Which step is kept, or waits."""

    @property
    def is_plain(self) -> bool:
        """Return whether it says no more than that the run has started, or completed with a result."""
        return self.usage is None and (self.kind in {"completed", "started"})

    def check_sealed(self) -> None:
        """Refuse what an encrypted task must not carry. Raises `ValidationFailed`."""
        message = None if self.progress is None else orjson.loads(self.progress)["message"]
        texts = {"error": self.error, "traceback": self.traceback, "detail": self.detail, "message": message}
        check_words({"result": self.result, "checkpoint": self.checkpoint}, texts)
        for line in self.lines or ():
            check_words({}, {"lines": line.message})

    def digests(self) -> set[bytes]:
        """Return all that the digest of the same report may be: what is sealed may name several keys' digests."""
        most = max(map(digests_in, (self.result, self.error, self.checkpoint, self.detail)))
        return {self.digest(number) for number in range(most)}

    def digest(self, number: int = 0) -> bytes:
        """Return what two reports must share to be the same report: the order of keys in JSON is no difference.

        Of what is sealed its digests count, the first of them or that of another `number`.
        """
        # A failure that gives no reason is an error, by whichever route it came.
        cause = self.reason or (Reason.ERROR if self.kind == "failed" else None)
        detail = self.detail if self.step is None else repr(self.step)
        said = (self.result, self.error, cause and str(cause), self.checkpoint, detail)
        if said == _NOTHING and self.usage is None:
            return _digest_of_nothing(self.kind)
        result, error, reason, checkpoint, detail = said
        result, checkpoint = in_order(identity(result, number)), in_order(identity(checkpoint, number))
        parts = (self.kind, result, identity(error, number), reason, checkpoint, identity(detail, number))
        return _digest(parts if self.usage is None else (*parts, f"used {self.usage!r}"))


_NOTHING = (None,) * 5


def _digest(parts: tuple[str | None, ...]) -> bytes:
    return blake2b(repr(parts).encode("utf-8", "surrogatepass"), digest_size=16).digest()


@cache
def _digest_of_nothing(kind: str) -> bytes:
    return _digest((kind, *_NOTHING))


def in_order(text: str | None) -> str | None:
    """Return JSON text, as the server writes it, with its keys in order."""
    if text is None or "{" not in text:
        return text
    sorted_text = orjson.dumps(orjson.loads(text), option=orjson.OPT_SORT_KEYS).decode()
    # orjson reads integers beyond 64 bits as floats, which gives the text another length or an `e` more.
    if len(sorted_text) == len(text) and sorted_text.count("e") == text.count("e"):
        return sorted_text
    return json.dumps(json.loads(text), sort_keys=True, ensure_ascii=False, separators=(",", ":"))
