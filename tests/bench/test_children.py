"""The processes of the demo and the bench, and signals that come while these are stopped."""

import os
import signal
from pathlib import Path

import pytest

from treadle_bench.children import Child, Children


class Interrupted(Child):
    """A child whose stopping is interrupted by a signal."""

    def __init__(self, sent: signal.Signals) -> None:
        self._sent = sent

    def stop(self) -> None:
        os.kill(os.getpid(), self._sent)


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_further_signal_does_not_interrupt_the_stopping(tmp_path: Path, sent: signal.Signals) -> None:
    """A closed terminal sends two: the second one ended the demo, and left a server and its directory behind."""
    received: list[int] = []

    def receive(number: int, _: object) -> None:
        received.append(number)

    before = signal.signal(sent, receive)
    try:
        with Children(tmp_path, {}) as children:
            children._add(Interrupted(sent))

        assert received == []
        assert signal.getsignal(sent) is receive
    finally:
        signal.signal(sent, before)
