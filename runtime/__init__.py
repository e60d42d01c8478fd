"""The dataflow runtime: what users say, the graphs it becomes, and the executors that run them."""
