"""When to compact, what to keep, and how the stages run."""
