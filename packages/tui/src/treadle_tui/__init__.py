"""Treadle's dashboard: live queues, queue positions and workers in a terminal."""
