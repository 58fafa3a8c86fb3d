"""The policies as values: presets, their knobs, strategies by id."""
