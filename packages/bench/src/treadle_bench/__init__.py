"""`treadle bench` and `treadle demo`: servers, workers and submitters in processes, to measure or to watch."""
