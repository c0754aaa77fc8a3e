"""Where a task's code runs apart from its worker's loop: threads, and child processes that can be killed."""
