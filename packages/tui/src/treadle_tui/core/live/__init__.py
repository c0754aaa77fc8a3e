"""Where it comes from: the connection to a server, what is asked of it, and recordings of both."""
