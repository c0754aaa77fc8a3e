"""What the dashboard knows: the rows that the server pushed, and what is derived from them."""
