"""Which release of Treadle this is."""

__version__ = "0.1.0"
"""The version of the distribution, as `treadle --version` says it."""
