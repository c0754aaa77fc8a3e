"""When a webhook is tried again (E12)."""

import pytest

from treadle_server.domain.webhooks import LONGEST_DELAY, delay_after


@pytest.mark.parametrize(("attempts", "asked", "seconds"), [(1, None, 5), (2, None, 20), (1, 60, 60), (2, 3, 20)])
def test_a_receiver_is_tried_again_when_it_asks_for_it_or_later(attempts, asked, seconds) -> None:
    assert delay_after(attempts, lambda: 0.5, asked).total_seconds() == seconds


@pytest.mark.parametrize(("attempts", "asked"), [(1, 1e9), (50, None)])
def test_no_receiver_puts_a_delivery_off_for_ever(attempts, asked) -> None:
    assert delay_after(attempts, lambda: 0.5, asked).total_seconds() == LONGEST_DELAY
