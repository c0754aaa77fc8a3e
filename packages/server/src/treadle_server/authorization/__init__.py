"""Authorization: what each operation needs, and whether the principal of a request has it."""
