"""The operations of the wire: HTTP and the socket call the same functions."""
