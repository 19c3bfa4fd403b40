"""Notebook 26: how late a waiting consumer hears of a record."""
