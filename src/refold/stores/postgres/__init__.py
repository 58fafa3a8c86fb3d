"""Sessions in a PostgreSQL database, for many hosts."""
