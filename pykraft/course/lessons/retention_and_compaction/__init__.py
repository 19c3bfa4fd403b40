"""Notebook 20: what a log forgets."""
