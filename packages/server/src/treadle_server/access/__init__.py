"""Who may do what: scopes, and whoever holds them."""
