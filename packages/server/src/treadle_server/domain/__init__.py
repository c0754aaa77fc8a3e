"""The rules of a task's life, pure: no I/O, no clock and no randomness but what is passed in."""
