"""Connectors: one folder a system, the same file names in each; `spi` says what they owe."""
