"""Observability of a run: events, statistics computed from them, and their output formats."""
