"""Two-phase commit: what sinks implement, and the ledger that settles what they prepared."""
