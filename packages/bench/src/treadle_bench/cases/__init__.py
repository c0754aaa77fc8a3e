"""What `treadle bench` measures: one module for each kind of case."""
