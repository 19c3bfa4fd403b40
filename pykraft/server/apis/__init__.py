"""What a node answers: one handler for each API, grouped by subject."""
