"""Notebook 12 and lab 12: a leader dies, and logs are truncated."""
