"""Which parts of a task are sealed: all that its code was given or has said, and nothing that the server needs."""

from typing import Any

import pytest

from treadle.encryption import FernetCodec, Sealer, new_key
from treadle.encryption.fields import (
    class_of_error,
    opened_claim,
    opened_task,
    opened_texts,
    sealed_message,
    sealed_payload,
    sealed_report,
)
from treadle.errors import CantDecrypt, EncryptionError, InvalidArguments
from treadle.tasks import endings
from treadle.tasks.outcomes import Retry
from treadle.wire.sealed import UNSEALED, identities, seal_of

RUN = {"task_id": "t", "run_id": 0}
SEALER = Sealer(FernetCodec(new_key()))


class Declined(Exception):
    pass


def raised(error: BaseException, cause: BaseException | None = None) -> endings.Ending:
    def fail() -> None:
        raise error from cause

    try:
        fail()
    except BaseException as caught:  # noqa: BLE001 - whatever was given
        return endings.raised(caught)
    raise AssertionError


def test_every_word_of_a_report_is_sealed_and_what_the_server_acts_by_is_not() -> None:
    report = {
        **RUN, "kind": "exception", "reason": "error", "usage": 2.5, "retry_after": 3, "code_runs": True, "share": 0.5,
        "result": ["secret"], "checkpoint": {"secret": 1}, "error": "secret", "traceback": "secret", "detail": "secret",
        "message": "secret", "lines": [{"level": "info", "at": None, "message": "secret"}],
    }  # fmt: skip

    sealed = sealed_report(SEALER, report)

    assert sealed is not None
    assert "secret" not in repr(sealed)
    assert {name for name in report if sealed[name] == report[name]} == {
        "task_id", "run_id", "kind", "reason", "usage", "retry_after", "code_runs", "share",
    }  # fmt: skip
    assert sealed["lines"][0]["level"] == "info"


@pytest.mark.parametrize(
    ("error", "wanted"),
    [
        (KeyError("secret"), "KeyError"),
        (Declined("secret: more"), "Declined"),
        (Declined(), "Declined"),
        (Declined("two\nlines: of it"), "Declined"),
        (Retry(5, "secret: more"), None),
        (type("E" * 256, (Exception,), {})("secret"), None),
        (ExceptionGroup("secret", [KeyError("secret")]), None),
    ],
)
def test_the_class_of_an_exception_stays_readable_and_no_word_of_a_message_passes_for_one(
    error: BaseException, wanted: str | None
) -> None:
    assert class_of_error(raised(error)) == wanted


def test_a_cause_before_it_does_not_hide_the_class_of_an_exception() -> None:
    assert class_of_error(raised(KeyError("secret"), cause=ValueError("other"))) == "KeyError"


def test_an_error_without_a_traceback_has_no_class() -> None:
    assert class_of_error({"error": "password: hunter2"}) is None
    assert class_of_error({"error": "password: hunter2", "traceback": "password: hunter2"}) is None


def test_what_no_key_opens_is_shown_as_it_is_and_the_rest_is_opened() -> None:
    other = Sealer(FernetCodec(new_key()))
    task = {"encrypted": True, "payload": SEALER.value({"n": 1}), "result": other.value(2), "error": SEALER.text("no"),
            "progress": {"share": 0.5, "message": SEALER.text("half")}, "checkpoint": None}  # fmt: skip

    opened = opened_task(SEALER, task)

    assert opened == {**task, "payload": {"n": 1}, "error": "no", "progress": {"share": 0.5, "message": "half"}}
    assert opened_task(Sealer(None), task) == task
    assert opened_texts(SEALER, {"message": other.text("a"), "error": SEALER.text("b")})["error"] == "b"


@pytest.mark.parametrize(
    ("payload", "place"),
    [
        ({"a": ["\ud800"]}, r"payload: a\[0\]: a lone surrogate"),
        ({"a": float("nan")}, "payload: a: a number that is"),
    ],
)
def test_what_can_t_be_sent_in_plain_can_t_be_sent_sealed_and_the_place_is_named(
    payload: dict[str, Any], place: str
) -> None:
    with pytest.raises(InvalidArguments, match=place):
        sealed_payload(SEALER, payload, None)


def test_a_plain_task_is_not_opened_whatever_it_holds() -> None:
    task = {"encrypted": False, "payload": SEALER.value("another's secret"), "result": SEALER.value("and more")}

    assert opened_task(SEALER, task) == task


def test_a_claim_is_opened_whole_or_not_at_all() -> None:
    other = Sealer(FernetCodec(new_key()))
    sealed = SEALER.value({"n": 1})

    assert opened_claim(SEALER, {"payload": sealed, "encrypted": True})["payload"] == {"n": 1}
    kept = [{"step": "charge", "result": SEALER.value(7)}, {"step": "sleep", "result": None}]
    steps = opened_claim(SEALER, {"payload": sealed, "kept_steps": kept, "encrypted": True})["kept_steps"]
    assert steps == [{"step": "charge", "result": 7}, {"step": "sleep", "result": None}]
    for claim in (
        {"payload": sealed, "kept_steps": [{"step": "charge", "result": other.value(7)}]},
        {"payload": sealed, "checkpoint": other.value(1)},
        {"payload": other.value({})},
        {"payload": {"n": 1}},
        # What nobody with a key has said: the server would make it up, as a step that has charged the customer.
        {"payload": sealed, "checkpoint": {"page": 7}},
        {"payload": sealed, "kept_steps": [{"step": "charge", "result": 7}]},
    ):
        with pytest.raises(CantDecrypt):
            opened_claim(SEALER, {**claim, "encrypted": True})


def test_a_codec_that_fails_sends_nothing_plain_and_ends_the_run_with_a_sentence() -> None:
    class Broken(FernetCodec):
        def encode(self, data: bytes) -> bytes:
            raise OSError("the key service is away")

    broken = Sealer(Broken(new_key()))

    end = sealed_report(broken, {**RUN, "kind": "completed", "result": "secret", "starts": True})
    line = sealed_report(broken, {**RUN, "kind": "logs", "lines": [{"message": "secret"}]})

    assert end == {**RUN, "kind": "exception", "reason": "internal-error", "error": UNSEALED}
    assert line is None
    with pytest.raises(EncryptionError, match="the key service is away"):
        sealed_report(broken, {**RUN, "kind": "checkpoint", "checkpoint": "secret"})


def test_two_messages_of_one_id_are_the_same_by_the_digest_of_what_they_say() -> None:
    message = {"id": "1", "data": {"by": "ann"}}

    first, again = (sealed_message(SEALER, "t", "approved", message) for _ in range(2))
    other = sealed_message(SEALER, "t", "approved", {**message, "data": 2})

    assert first["id"] == "1"
    assert SEALER.open_value(first["data"]) == {"by": "ann"}
    shared = [identities(seal_of(one["data"]) or "") for one in (first, again, other)]
    assert shared[0] == shared[1] != shared[2]
    assert sealed_message(SEALER, "t", "approved", {"id": "1", "data": None}) == {"id": "1", "data": None}
