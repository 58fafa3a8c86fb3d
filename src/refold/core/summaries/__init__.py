"""Summaries: their wrapper, their acceptance, the origin of their words, the state of the work."""
