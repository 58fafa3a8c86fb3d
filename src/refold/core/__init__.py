"""The pure heart: no files, no network, no clock, no chance."""
