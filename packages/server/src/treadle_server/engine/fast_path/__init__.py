"""The fast path for plain submits, starts and completions, which nearly every task takes instead of the commands."""
