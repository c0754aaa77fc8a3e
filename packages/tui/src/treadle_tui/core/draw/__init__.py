"""Drawing into a terminal's cells: text, glyphs, numbers, columns and long documents; independent of any screen."""
