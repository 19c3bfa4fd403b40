"""Notebook 02: a partition's folder, its segments and its indexes."""
