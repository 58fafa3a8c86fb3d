"""Sessions as JSON lines, one file each."""
