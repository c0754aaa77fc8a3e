"""What each screen shows: lists with their columns, the lines above them, and the sheets of a task."""
