"""TODO: one sentence of purpose."""
