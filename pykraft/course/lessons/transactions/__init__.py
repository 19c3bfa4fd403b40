"""Notebook 19: batches, markers, and the coordinator's log."""
