"""Facts about models: windows, names, prices, spending limits."""
