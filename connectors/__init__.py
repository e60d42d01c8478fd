"""Connectors: one folder per system with the same file names in each; `spi` defines the interfaces."""
