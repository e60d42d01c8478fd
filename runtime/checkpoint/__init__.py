"""Checkpoints: coordinator, manifest, restore, retention, and the record of a pipeline."""
