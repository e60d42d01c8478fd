"""What can be known of a start before it: what becomes of the state it goes on from, and what would stop it."""
