"""Settings from refold.toml and the environment."""
