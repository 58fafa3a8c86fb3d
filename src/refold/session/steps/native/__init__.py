"""Compactions of the provider itself: their folds, and what stands for a refused one."""
