"""State backends: keyed state, materialisations and checkpoint storages."""
