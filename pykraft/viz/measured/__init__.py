"""Charts of what was measured, guessed and claimed."""
