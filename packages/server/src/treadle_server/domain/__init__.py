"""The rules of a task's life. They are pure: without I/O, and with clock and randomness only as arguments."""
