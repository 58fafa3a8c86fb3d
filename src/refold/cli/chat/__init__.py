"""The chat on a terminal and in a pipe: reading lines, showing answers as they come, asking the person."""
