"""Skeletons that `tidegate new` writes."""
