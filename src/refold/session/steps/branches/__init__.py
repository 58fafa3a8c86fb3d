"""Where a caller's list leaves what was said: the branches of a session."""
