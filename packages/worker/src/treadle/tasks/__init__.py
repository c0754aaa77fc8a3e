"""Tasks: the decorator, what it makes of a function, and what the function receives and may raise."""
