"""Isolation: a task's code outside its worker's event loop, in threads or in child processes that can be killed."""
