"""What commands print: the screen, tables, meters, JSON."""
