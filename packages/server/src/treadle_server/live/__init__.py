"""Everything that the server pushes: the session socket, observers' feeds, and the stream of events."""
