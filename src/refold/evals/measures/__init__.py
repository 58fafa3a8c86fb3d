"""Measures: planted rules and facts, answers, re-use, and the templates that talks are made from."""
