"""Decide whether an error is a refusal for size, and read its numbers."""
