"""What is pushed: the session socket, the feeds of observers, and the stream of events."""
