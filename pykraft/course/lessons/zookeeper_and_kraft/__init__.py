"""Notebook 16: the active controller dies."""
