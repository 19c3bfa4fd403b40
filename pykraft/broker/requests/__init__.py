"""What a node answers: one handler for each API, grouped by subject. See `dispatch` for what a module here holds."""
