"""The file forms of other systems: Ripple's archive and NeuroLink's tagged list."""
