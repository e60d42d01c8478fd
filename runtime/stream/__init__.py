"""The DataStream API: environment, streams, functions."""
