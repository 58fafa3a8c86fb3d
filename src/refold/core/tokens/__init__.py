"""Size of a conversation in tokens: counters, the estimate, images, reported usage."""
