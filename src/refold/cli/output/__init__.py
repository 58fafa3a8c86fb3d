"""What commands print: the screen, tables, bars, messages, JSON and files."""
