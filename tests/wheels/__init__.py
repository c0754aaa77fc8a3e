"""What is installed: by the README's commands, and from the wheels."""
