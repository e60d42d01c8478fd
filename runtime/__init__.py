"""The dataflow runtime: DataStream API, graphs, operators, tasks, checkpoints, executors, command line."""
