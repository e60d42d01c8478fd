"""Operators: generated loops, keyed functions, sinks, and the chains that contain them."""
