"""Notebook 01: what a change in place costs, and a log's file to look into."""
