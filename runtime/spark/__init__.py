"""The Spark executor: one epoch is one Spark job and one checkpoint."""
