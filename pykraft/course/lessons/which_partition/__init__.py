"""Notebook 08: keys, partitions, and what partitions cost."""
