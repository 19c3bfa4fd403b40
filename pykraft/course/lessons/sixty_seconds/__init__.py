"""Notebook 00: one record, followed to all of its copies."""
