"""Where the data comes from: the connection to a server, the subscriptions, and recordings."""
