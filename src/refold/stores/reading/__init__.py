"""Reads what a store has of a session, without opening it: for the terminal and the inspector."""
