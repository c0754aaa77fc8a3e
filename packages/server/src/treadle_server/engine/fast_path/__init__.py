"""What nearly every task goes through, without the unit of work: plain submits, starts and completions."""
