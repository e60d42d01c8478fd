"""Measurements beside peers and baselines; `python -m benchmarks` runs them all."""
