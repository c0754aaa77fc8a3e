"""The checks of `treadle doctor`: this side, the server as seen from here, and those of other distributions."""
