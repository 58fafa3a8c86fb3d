"""One file for each wire of a provider: what is sent, and how its answer is read."""
