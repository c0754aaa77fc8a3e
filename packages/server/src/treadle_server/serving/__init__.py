"""The sockets that the application is served on: uvicorn, bounds for strangers, and the end."""
