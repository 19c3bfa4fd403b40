"""Notebook 15 and lab 15: what many partitions cost, and voters that come and go."""
