"""What the dashboard knows: the server's rows as they were pushed, and what follows from them."""
