"""Ways to shrink a history, one a file; pure, and none knows another."""
