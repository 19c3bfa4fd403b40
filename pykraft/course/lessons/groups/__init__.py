"""Notebook 17 and lab 17: members of a consumer group come and go."""
