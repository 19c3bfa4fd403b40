"""Notebook 25: one line of the real code is wrong, and the reader finds it."""
