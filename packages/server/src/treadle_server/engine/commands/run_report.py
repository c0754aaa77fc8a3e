"""A worker's report about one run, and the digest that makes two reports the same."""

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
    """The content of a report; `kind` says which fields count. JSON values are text."""

    kind: str
    starts: bool = False
    """Whether it also reports the start, which was not reported before."""
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
    """Whether the code runs on though its run has failed, like a thread that ignores its timeout: it keeps its slot."""
    step: StepReport | None = None
    """The step to be kept, or in which the run waits."""

    @property
    def is_plain(self) -> bool:
        """Return whether it says nothing but that the run has started, or has completed with a result."""
        return self.usage is None and (self.kind in {"completed", "started"})

    def check_sealed(self) -> None:
        """Raise `ValidationFailed` for anything in plain text that an encrypted task must not carry."""
        message = None if self.progress is None else orjson.loads(self.progress)["message"]
        texts = {"error": self.error, "traceback": self.traceback, "detail": self.detail, "message": message}
        check_words({"result": self.result, "checkpoint": self.checkpoint}, texts)
        for line in self.lines or ():
            check_words({}, {"lines": line.message})

    def digests(self) -> set[bytes]:
        """Return all possible digests of this report: sealed values may name the digests of several keys."""
        most = max(map(digests_in, (self.result, self.error, self.checkpoint, self.detail)))
        return {self.digest(number) for number in range(most)}

    def digest(self, number: int = 0) -> bytes:
        """Return the digest by which two reports are the same; the order of keys in JSON makes no difference.

        Of a sealed value only a digest that it names counts: the first one, or the one with this `number`.
        """
        # A failure without a reason is an error, by whichever route it was reported.
        cause = self.reason or (Reason.ERROR if self.kind == "failed" else None)
        detail = self.detail if self.step is None else repr(self.step)
        values = (self.result, self.error, cause and str(cause), self.checkpoint, detail)
        if values == _NOTHING and self.usage is None:
            return _digest_of_nothing(self.kind)
        result, error, reason, checkpoint, detail = values
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
    """Return JSON text in the server's form with its keys sorted."""
    if text is None or "{" not in text:
        return text
    sorted_text = orjson.dumps(orjson.loads(text), option=orjson.OPT_SORT_KEYS).decode()
    # orjson reads integers beyond 64 bits as floats, which changes the text's length or adds an `e`.
    if len(sorted_text) == len(text) and sorted_text.count("e") == text.count("e"):
        return sorted_text
    return json.dumps(json.loads(text), sort_keys=True, ensure_ascii=False, separators=(",", ":"))
