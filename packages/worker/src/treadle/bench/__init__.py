"""The benchmark behind `treadle bench`: real processes, real databases, and figures that say how they were taken."""
