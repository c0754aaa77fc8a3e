"""What runs beside the requests: the sweeper, the promoter, the poll behind every wake-up."""
