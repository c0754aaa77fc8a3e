"""What the writer reads and writes within its transaction; nothing else changes a row of tasks, jobs or workers."""
