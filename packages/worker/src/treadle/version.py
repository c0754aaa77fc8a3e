"""The release of Treadle that this is."""

__version__ = "0.1.0"
"""The version of the distribution, as shown by `treadle --version`."""
