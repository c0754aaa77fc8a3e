"""Tests of threads and processes that code runs in."""
