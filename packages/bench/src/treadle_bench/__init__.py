"""`treadle bench` and `treadle demo`: servers, workers and submitters in processes, measured or looked at."""
