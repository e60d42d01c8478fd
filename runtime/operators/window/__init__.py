"""Windows: which records belong together, when they are evaluated, what is kept of them."""
