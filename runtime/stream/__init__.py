"""What the user says: environment, streams, functions."""
