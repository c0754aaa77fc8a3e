"""As in the server: what keeps tasks."""
