"""Searching histories: many seeds at once, under a planted bug or a patch; and a failing history made smaller."""
