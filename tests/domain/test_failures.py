"""What failed and where: by this failures are put together."""

import pytest

from treadle.wire.status import Reason
from treadle_server.domain.failures import key_text, kind_of, parse_key, place_of
from treadle_server.domain.hashes import hashed

TRACE = """Traceback (most recent call last):
  File "/srv/app/billing/charge.py", line {line}, in charge
    pay(card)
  File "/srv/app/.venv/lib/python3.12/site-packages/httpx/_client.py", line 914, in send
    raise ConnectError
httpx.ConnectError: refused"""


@pytest.mark.parametrize(
    ("error", "reason", "kind"),
    [
        ("ValueError: no cell", Reason.ERROR, "ValueError"),
        ("ValueError", None, "ValueError"),
        ("httpx.ConnectError: refused", Reason.ERROR, "httpx.ConnectError"),
        ("it is no class: really", Reason.ERROR, "error"),
        ("the run took longer than its timeout", Reason.TIMEOUT, "timeout"),
        ("ValueError: x", Reason.MALFORMED_PAYLOAD, "malformed-payload"),
        (None, None, "error"),
    ],
)
def test_the_kind_is_the_class_of_the_error_or_else_the_reason(
    error: str | None, reason: Reason | None, kind: str
) -> None:
    assert kind_of(error, reason) == kind


def test_the_place_is_the_last_frame_that_is_no_librarys_whatever_its_line() -> None:
    assert place_of(TRACE.format(line=12), "lab:tasks:bill") == "billing/charge.py in charge"
    assert place_of(TRACE.format(line=98), "x") == place_of(TRACE.format(line=12), "y")


def test_where_there_is_no_frame_of_ones_own_the_library_s_or_the_job_stands() -> None:
    library = TRACE[TRACE.index('  File "/srv/app/.venv') :]

    assert place_of(library, "lab:tasks:bill") == "httpx/_client.py in send"
    assert place_of("boom\nFile nowhere", "lab:tasks:bill") == "lab:tasks:bill"
    assert place_of(None, "lab:tasks:bill") == "lab:tasks:bill"
    assert place_of(TRACE.replace("/", "\\").format(line=1), "x") == "billing/charge.py in charge"


def test_a_key_is_read_as_it_was_written() -> None:
    keys = {hashed("ValueError", f"p{n}") for n in range(200)}

    assert len(keys) == 200
    assert {parse_key(key_text(key)) for key in keys} == keys
    assert {len(key_text(key)) for key in keys} == {16}
    assert min(keys) < 0 < max(keys)
