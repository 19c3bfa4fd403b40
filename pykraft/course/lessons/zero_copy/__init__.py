"""Notebook 05 and lab 05: a file goes through a socket."""
