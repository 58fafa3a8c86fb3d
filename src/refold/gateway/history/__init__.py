"""Histories in requests: how they are split, named, found in the store, and written again with folds."""
