"""Commands from other processes of the same user to a run: where runs are found, and what they are asked."""
