"""What HTTP clients of tests share."""

import ssl

PLAIN = ssl.create_default_context()
"""A client makes one of its own otherwise, which takes 20 ms, for addresses that begin with `http` too."""
