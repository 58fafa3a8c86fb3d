"""Exact token counts with a tokenizer; an extra."""
