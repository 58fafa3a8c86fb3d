"""The calls on plain data: measure, plan, compact, repair, and what they give back."""
