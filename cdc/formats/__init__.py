"""Formats of change events in messages."""
