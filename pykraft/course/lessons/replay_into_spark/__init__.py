"""Notebook 23: a topic is replayed into Spark."""
