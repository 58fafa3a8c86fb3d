"""Find secrets and take them out of texts and messages."""
