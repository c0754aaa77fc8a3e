"""Faults by name: each is put into a copy of the packages, and the net that must find it is run against that."""
