"""Moving a whole database between SQLite and PostgreSQL while no server runs: `treadle copy`."""
