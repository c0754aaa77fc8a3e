"""`treadle demo`: all of Treadle at work on the Python files of a directory."""
