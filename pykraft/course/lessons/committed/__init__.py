"""Notebook 11: when a record is committed."""
