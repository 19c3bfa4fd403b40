"""Notebook 03: the bytes of batches."""
