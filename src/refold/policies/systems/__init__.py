"""The five systems: one file each, with the prompts and window tables of their documents as data."""
