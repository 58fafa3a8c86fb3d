"""The outputs of commands: the screen, tables, bars, messages, JSON and files."""
