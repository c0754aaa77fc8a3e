"""Tests of what a task is."""
