"""How anything is written in a terminal's cells: text, glyphs, numbers, columns, long documents; knows of no screen."""
