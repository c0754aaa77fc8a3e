"""Authentication: tokens and credentials, and the scopes that say what their holders may do."""
