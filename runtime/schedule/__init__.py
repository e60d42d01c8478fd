"""Restart strategies, and which subtask runs in which slot."""
