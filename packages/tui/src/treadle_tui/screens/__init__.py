"""The dashboard's screens: they read the model when it is dirty, and hand it to their widgets."""
