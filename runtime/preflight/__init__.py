"""Checks before a start: storage, connectors, and the state that would be restored."""
