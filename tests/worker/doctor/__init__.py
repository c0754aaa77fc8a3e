"""Tests of what `treadle doctor` examines."""
