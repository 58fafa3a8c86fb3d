"""How large a conversation is: counters, the estimate, images, reported usage."""
