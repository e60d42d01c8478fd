"""State backends: the keyed state of an operator, its materialisations and where checkpoints live."""
