"""What holds for PostgreSQL alone: its writer, its clock, who else writes, and connections past any pool."""
