"""What the user can do: the registry of actions, their keys and commands, and how they are carried out."""
