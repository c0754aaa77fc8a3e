"""`treadle demo`: the whole of Treadle at work on the Python files of a directory."""
