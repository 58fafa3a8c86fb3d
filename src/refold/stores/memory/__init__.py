"""Sessions in memory, gone with the process."""
