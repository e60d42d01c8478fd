"""Restart strategies."""
