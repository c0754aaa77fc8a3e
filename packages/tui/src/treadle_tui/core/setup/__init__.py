"""What the dashboard was started with: the configuration file, its servers, and the state that outlives each."""
