"""What the page shows, as plain data: read from a store and from sessions, by the calls of the terminal."""
