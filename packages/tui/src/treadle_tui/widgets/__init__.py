"""The dashboard's widgets: they draw what they are given and say what the reader did."""
