"""The names of the themes: on the command line, in the configuration file, and in the dashboard."""

THEMES = ("dark", "light", "contrast", "colourblind", "sixteen", "mono")
