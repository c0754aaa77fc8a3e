"""Serves the application on sockets: uvicorn, limits for clients without a token, and shutdown."""
