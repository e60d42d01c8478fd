"""Audit of a pipeline: compares its output with the output expected for its input."""
