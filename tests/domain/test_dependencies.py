"""F2: which tasks of one request wait for which."""

from typing import Any

import pytest

from treadle.wire.flows import MOST_DEPENDENCIES
from treadle_server.domain.dependencies import ItemDependencies, resolve
from treadle_server.errors import ValidationFailed

ID = "019aa5c0-0000-7000-8000-00000000000a"


def asked(ref: str | None = None, task_id: str | None = None, **depends_on: Any) -> ItemDependencies:
    return ItemDependencies(task_id, ref, depends_on)


def test_f2_a_ref_is_meant_as_it_is_written():
    with pytest.raises(ValidationFailed, match="'B' is not a task id, and no task of this request has that ref"):
        resolve([asked(ref="b"), asked(x="B")])


def test_f2_an_id_is_meant_whatever_its_case():
    [_, [need]], order = resolve([asked(task_id=ID), asked(x=ID.upper())])

    assert (need.of, order) == (0, [0, 1])


def test_f2_the_tasks_of_one_request_wait_for_so_many_in_all_and_no_more():
    half = [str(n) for n in range(MOST_DEPENDENCIES // 2)]
    layer = [asked(ref=ref) for ref in half]

    resolve([*layer, asked(x=half), asked(x=half)])
    with pytest.raises(ValidationFailed, match="100,001 dependencies; one request may have at most 100,000"):
        resolve([*layer, asked(x=half), asked(x=half), asked(x="0")])
