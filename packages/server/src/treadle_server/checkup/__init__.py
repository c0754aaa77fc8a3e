"""What `treadle doctor` examines where the server is installed: disk, files, limits, database; it only reads."""
