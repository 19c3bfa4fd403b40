"""Notebook 13 and lab 13: a simulated quorum elects."""
