"""Notebook 10 and lab 10: brokers end while records are on their way."""
