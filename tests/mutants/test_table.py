"""The table of faults fits the code: each can be put in, and what is to find it is there."""

import re
from functools import cache

import pytest

from tests.mutants import nets, report
from tests.mutants.faults import ROOT, Fault, all_faults

FAULTS = all_faults()

LEAST = 150
"""Faults that there are to be."""


@cache
def _text(path: str) -> str:
    return (ROOT / path).read_text() if (ROOT / path).is_file() else ""


def _is_there(net: str) -> bool:
    path, _, name = net.partition("::")
    parts = name.partition("[")[0].split("::")
    return net in nets.NAMED or all(
        re.search(rf"(?:def|class) {part}\b|^{part} = ", _text(path), re.MULTILINE) for part in parts
    )


def test_every_fault_can_be_put_in_as_the_code_stands() -> None:
    complaints = []
    for fault in FAULTS:
        try:
            fault.placed(_text(str(fault.path)))
        except ValueError as error:
            complaints.append(str(error))

    assert complaints == []


def test_every_net_is_there() -> None:
    assert {fault.name: fault.net for fault in FAULTS if not _is_there(fault.net)} == {}


def test_the_faults_are_many_and_each_has_a_name_that_says_it() -> None:
    assert len(FAULTS) >= LEAST
    assert [fault.name for fault in FAULTS if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", fault.name)] == []


def test_a_fault_that_does_not_fit_is_refused() -> None:
    def refused(old: str, new: str, text: str) -> str:
        with pytest.raises(ValueError, match="a-fault: ") as raised:
            Fault("a-fault", "treadle/clock.py", old, new, "tests/x.py").applied(text)
        return str(raised.value)

    assert "0 times" in refused("b = 1", "b = 2", "a = 1\n")
    assert "2 times" in refused("a", "c", "a = 1\na = 2\n")
    assert "no Python" in refused("a = 1", "a = (", "a = 1\n")
    assert "the same" in refused("a = 1", "a =  1", "a = 1\n")


def test_the_page_tells_of_every_fault_what_found_it() -> None:
    listed = report.listed()

    assert sorted(listed) == sorted(fault.name for fault in FAULTS)
    assert [row for row in listed.values() if "not found" in row] == []
