"""HTTP: one table of endpoints (`routes.py`), and the handlers that turn requests into commands and reads."""
