"""The writer's reads and writes in its transaction; nothing else changes a row of tasks, jobs or workers."""
