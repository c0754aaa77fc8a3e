"""Whether a request is let through: what each operation needs, and whether who asks holds it."""
