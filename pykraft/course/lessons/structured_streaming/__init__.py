"""Notebook 24: flights stream into Spark."""
