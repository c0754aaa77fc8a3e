"""Tests of how a server is reached."""
