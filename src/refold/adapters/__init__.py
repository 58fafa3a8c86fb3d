"""Refold inside other frameworks: one module for each, imported only by whoever names it.

The framework keeps its whole history. Refold makes the view at the model's door: it takes the full list
before each request, sends the view, and gives the framework its own list back untouched.
"""
