"""Whether the output of a pipeline is what its input should lead to: nothing lost, nothing twice, nothing else."""
