"""Notebook 06: requests and responses, byte by byte."""
