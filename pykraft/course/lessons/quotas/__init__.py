"""Scenarios of notebook 22."""
