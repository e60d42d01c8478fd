"""Graphs: transformations, the stream graph with everything resolved, the job graph of chains."""
