"""The engine: commands in, one durable transaction for many of them, answers and events out."""
