"""Notebook 18: a message is lost, and a payment is in the log once, twice, or not at all."""
