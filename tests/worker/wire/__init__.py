"""Tests of what crosses the wire."""
