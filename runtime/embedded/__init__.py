"""The embedded executor: JobManager, workers, and the connections between them."""
