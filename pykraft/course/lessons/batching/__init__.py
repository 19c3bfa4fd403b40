"""Notebook 09: advice about producers, put to the test."""
