"""The dashboard's widgets: they draw what they are given and report what the user does."""
