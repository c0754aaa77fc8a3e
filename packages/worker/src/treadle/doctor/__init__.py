"""What `treadle doctor` examines: this side, the server as it is seen from here, and what other distributions add."""
