"""How a run shows itself: its events, the figures folded from them, and the forms in which others read both."""
