"""Measuring rigs of single notebooks: a scenario or a small program that costs nothing to read past.

A notebook calls a rig in one line and shows the rig's source to a reader who asks. A rig that a second notebook needs
moves up a folder.
"""
