"""The state of one session, split into values with one owner each."""
