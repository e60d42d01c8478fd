"""What runs per batch: generated loops, keyed functions, sinks, and the chain that holds them."""
