"""Notebook 14 and lab 14: metadata records, and the image that they make."""
