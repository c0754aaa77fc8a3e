"""How a server is reached: over the session socket or plain HTTP, with which token, in which order."""
