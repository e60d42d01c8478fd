"""The same four jobs for every system that is compared; each module serves them in a process of its own."""
