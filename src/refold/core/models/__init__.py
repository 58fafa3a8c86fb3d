"""What a model has and costs: windows, names, prices, spending limits."""
