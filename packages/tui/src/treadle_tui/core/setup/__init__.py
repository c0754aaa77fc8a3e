"""What the dashboard was started with: the configuration file, the servers that it names, and what outlives each."""
