"""Checkpoints: coordinator, manifest, restore, retention, and the pipeline's place on its storage."""
