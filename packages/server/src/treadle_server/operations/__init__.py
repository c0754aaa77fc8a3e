"""What each operation of the wire does, whatever brought it: HTTP and the socket call the same functions."""
