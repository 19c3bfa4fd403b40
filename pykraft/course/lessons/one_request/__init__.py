"""Notebook 07 and lab 07: the stages of a broker."""
