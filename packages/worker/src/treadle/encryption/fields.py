"""Which parts of tasks, runs, logs, schedules and reports are encrypted, and how each is decrypted."""

import logging
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from treadle.encryption.sealer import Sealer
from treadle.errors import CantDecrypt, EncryptionError, InvalidArguments
from treadle.values import plain_request
from treadle.wire.jobs import JobItem
from treadle.wire.pointers import key_at, pointers_among
from treadle.wire.runs import MOST_SEALED_MESSAGE
from treadle.wire.sealed import LIMIT_KEYS, LONGEST_CLASS, UNSEALED, seal_of, seal_of_text, shown

log: logging.Logger = logging.getLogger("treadle")

Raw = dict[str, Any]
"""An object in JSON, as received or as it is sent."""

_VALUES = ("payload", "result", "checkpoint")
_TEXTS = ("error", "traceback", "detail", "message")
SAID = ("payload", "result", "checkpoint", "error")
"""The fields that people may set on a task by hand."""

_COMPARED = frozenset({"error", "detail"})
"""Texts by which two reports are compared, and which therefore have digests."""

_FRAME = re.compile(r"^[ ]*File \"")
_HEAD = re.compile(r"(?:[A-Za-z_]\w*\.)*([A-Za-z_]\w*)(?::|$)", re.ASCII)


def sealed_payload(sealer: Sealer, payload: Mapping[str, Any], of: str | None, keys: Iterable[str | None] = ()) -> Raw:
    """Return a payload encrypted; `of` is its task's id, if any, and `keys` are those of its job's limits.

    For the values that the keys point to, the server gets digests to count by, the same for all tasks. Raises
    `NoCodec`, and `InvalidArguments` for values that could not be sent plain either, as the server would not notice
    them.
    """
    plain = plain_request("payload", payload)
    sealed = sealer.value(plain, of)
    if pointers := pointers_among(keys):
        sealed[LIMIT_KEYS] = {pointer: _limit_key(sealer, pointer, plain) for pointer in pointers}
    return sealed


def keys_of(job: JobItem) -> list[str | None]:
    """Return the keys of a job's limits."""
    return [limit.get("key") for limit in job.defaults.get("limits") or ()]


def _limit_key(sealer: Sealer, pointer: str, payload: Raw) -> str | None:
    try:
        text = key_at(pointer, payload)
    except ValueError as error:
        raise InvalidArguments(f"limits: the key {pointer} {error}") from None
    return None if text is None else sealer.digest(f"limit-key\0{text}".encode())


def sealed_words(sealer: Sealer, fields: Raw, keys: Iterable[str | None] = ()) -> Raw:
    """Return the fields of an edit or resolve of an encrypted task, encrypted unless they already are.

    `keys` are those of its job's limits. Raises as `sealed_payload` does.
    """
    given = [name for name in _VALUES if fields.get(name) is not None and seal_of(fields[name]) is None]
    sealed: Raw = {name: sealer.value(fields[name]) for name in given if name != "payload"}
    if "payload" in given:
        sealed["payload"] = sealed_payload(sealer, fields["payload"], None, keys)
    if fields.get("error"):
        sealed["error"] = sealer.text(fields["error"])
    return {**fields, **sealed}


def sealed_message(sealer: Sealer, task_id: str, name: str, message: Raw) -> Raw:
    """Return a message, with its id, for an encrypted task, with its data encrypted; the digest identifies equal ones.

    Raises `NoCodec`.
    """
    if message.get("data") is None:
        return message
    return {**message, "data": sealer.value(message["data"], f"{task_id}/message/{name}/{message['id']}")}


def opened_claim(sealer: Sealer, claim: Raw) -> Raw:
    """Return the claim of an encrypted task with its payload, checkpoint and steps decrypted.

    Raises `NoCodec` and `CantDecrypt`.
    """
    if seal_of(claim["payload"]) is None:
        raise CantDecrypt("the payload of an encrypted task is not encrypted: the server has tampered with it")
    opened: Raw = {name: sealer.open_sealed(claim[name]) for name in ("payload", "checkpoint") if name in claim}
    if claim.get("kept_steps"):
        opened["kept_steps"] = [opened_kept(sealer, step) for step in claim["kept_steps"]]
    return opened_task(sealer, {**claim, **opened})


def opened_kept(sealer: Sealer, step: Raw) -> Raw:
    """Return a step that an encrypted task keeps, decrypted for its code. Raises `NoCodec` and `CantDecrypt`."""
    return {**step, "result": sealer.open_sealed(step.get("result"))}


def opened_task(sealer: Sealer, task: Raw) -> Raw:
    """Return a task with all encrypted values decrypted that a key fits; the others stay as they are."""
    if not (task.get("encrypted") and sealer.has_codec):
        return task
    opened = {**task, **{name: _tried(sealer.open_value, task[name]) for name in _VALUES if name in task}}
    if task.get("error"):
        opened["error"] = _tried(sealer.open_text, task["error"])
    progress = task.get("progress")
    if isinstance(progress, Mapping) and progress.get("message"):
        opened["progress"] = {**progress, "message": _tried(sealer.open_text, progress["message"])}
    return opened


def opened_step(sealer: Sealer, step: Raw) -> Raw:
    """Return a kept step with its result decrypted, if it is encrypted and a key fits."""
    return {**step, "result": _tried(sealer.open_value, step.get("result"))} if sealer.has_codec else step


def opened_texts(sealer: Sealer, item: Raw) -> Raw:
    """Return a run, log line, event or group of failures, with the texts decrypted that a key fits."""
    if not sealer.has_codec:
        return item
    return {**item, **{name: _tried(sealer.open_text, item[name]) for name in _TEXTS if item.get(name)}}


def shown_task(sealer: Sealer, task: Raw) -> Raw:
    """Return a task to show to people: decrypted where a key fits; texts that stay encrypted are marked as such."""
    if not task.get("encrypted"):
        return task
    told = opened_task(sealer, task)
    told = {**told, "error": shown(told["error"])} if told.get("error") else told
    progress = told.get("progress")
    if isinstance(progress, Mapping) and progress.get("message"):
        told = {**told, "progress": {**progress, "message": shown(progress["message"])}}
    return told


def shown_texts(sealer: Sealer, item: Raw) -> Raw:
    """Return a run, log line, event or group of failures to show to people, likewise."""
    opened = opened_texts(sealer, item)
    sealed = [name for name in _TEXTS if opened.get(name) and seal_of_text(opened[name]) is not None]
    return {**opened, **{name: shown(opened[name]) for name in sealed}} if sealed else opened


def opened_schedule(sealer: Sealer, schedule: Raw) -> Raw:
    """Return a schedule with its payload decrypted, if it is encrypted and a key fits."""
    if not sealer.has_codec or "payload" not in schedule:
        return schedule
    return {**schedule, "payload": _tried(sealer.open_value, schedule["payload"])}


def sealed_report(sealer: Sealer, report: Raw) -> Raw | None:
    """Return a run's report with everything from its code encrypted; if an end can't be, it reports just that.

    None for progress and logs that can't be encrypted. Raises `EncryptionError` for a checkpoint or step that can't be.
    """
    try:
        return _sealed_report(sealer, report)
    except Exception as error:
        if report["kind"] in {"checkpoint", "step"}:
            raise EncryptionError(f"the {report['kind']} can't be encrypted: {error}") from error
        log.exception("task %s: the %s report can't be encrypted and is not sent", report["task_id"], report["kind"])
        ref = {"task_id": report["task_id"], "run_id": report["run_id"]}
        if report["kind"] in {"progress", "logs"}:
            return None
        return {**ref, "kind": "exception", "reason": "internal-error", "error": UNSEALED}


def _sealed_report(sealer: Sealer, report: Raw) -> Raw:
    run = f"{report['task_id']}/{report['run_id']}"
    if report["kind"] == "step":
        run = f"{report['task_id']}/step/{report['step']}/{report['occurrence']}"
    sealed = dict(report)
    for name in _VALUES:
        if report.get(name) is not None:
            sealed[name] = sealer.value(report[name], f"{run}/{name}")
    for name in _TEXTS:
        if report.get(name):
            said = f"{run}/{name}" if name in _COMPARED else None
            known = class_of_error(report) if name == "error" else None
            most = {"most": MOST_SEALED_MESSAGE} if name == "message" else {}
            sealed[name] = sealer.text(report[name], said, error_class=known, **most)
    if "lines" in report:
        sealed["lines"] = [{**line, "message": sealer.text(line["message"])} for line in report["lines"]]
    return sealed


def class_of_error(report: Mapping[str, Any]) -> str | None:
    """Return the class of the exception that a report is about, if its traceback shows that it is one.

    Of an error only this stays readable, so that failures can be grouped. The beginning of a message is never mistaken
    for a class.
    """
    error, traceback = report.get("error") or "", report.get("traceback") or ""
    head = _last_head(traceback)
    if head is None or len(head) > LONGEST_CLASS or not (error == head or error.startswith(f"{head}:")):
        return None
    return head


def _last_head(traceback: str) -> str | None:
    """Return the class that a traceback names below its last frame."""
    head, below = None, False
    for line in traceback.splitlines():
        if _FRAME.match(line):
            below = True
        elif below and line and not line[0].isspace() and (found := _HEAD.match(line)) is not None:
            head, below = found[1], False
    return head


def _tried(open_it: Callable[[Any], Any], sealed: Any) -> Any:
    try:
        return open_it(sealed)
    except CantDecrypt:
        return sealed
