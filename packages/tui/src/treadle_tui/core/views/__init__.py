"""What each screen shows: the lists with their columns, the lines over them, and a task's own sheets."""
