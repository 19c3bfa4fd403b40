"""Measuring rigs that more than one notebook needs: a scenario or a small program that costs nothing to read past.

A notebook calls a rig in one line and shows the rig's source to a reader who asks. What serves a single lesson is in
that lesson's folder in `course.lessons`.
"""
