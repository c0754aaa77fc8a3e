"""The address that a server listens on."""

import pytest

from treadle_server.serving.server import PortTaken, listen


@pytest.mark.parametrize("host", ["\u202e", "a\x00b", "a..b", " "])
def test_a_host_that_is_none_is_told_with_the_option_that_chooses_it(host: str) -> None:
    with pytest.raises(PortTaken, match=r"can't listen on .* Choose an address of this machine with --host"):
        listen(host, 0)
