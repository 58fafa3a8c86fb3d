"""The log of a conversation: entries, the view computed from them, and folds."""
