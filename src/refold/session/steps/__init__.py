"""The steps of which the operations of a session consist."""
