"""Background services: the sweeper, the promoter, the poll behind every wake-up, and others."""
