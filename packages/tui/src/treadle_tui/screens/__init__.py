"""The dashboard's screens: they read the model when it is dirty, and pass its data to their widgets."""
