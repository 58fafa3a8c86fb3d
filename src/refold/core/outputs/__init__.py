"""Make the output of tools shorter, and name an action and its outcome in one line each."""
