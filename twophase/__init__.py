"""Two-phase commit: the sink interface, and the ledger that settles prepared work."""
