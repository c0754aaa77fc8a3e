"""How a server is reached: the session socket and plain HTTP, with which token, in which order."""
