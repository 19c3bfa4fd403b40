"""Notebook 04: pages, readahead, and a warm and a cold log."""
