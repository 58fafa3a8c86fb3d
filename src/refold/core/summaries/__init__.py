"""What a summary is: its wrapper, its acceptance, whose words it repeats, the state of the work."""
