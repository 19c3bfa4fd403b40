"""For authors: runs a notebook, keeps its outputs, and makes slides, links and the map of the package from the course.

A reader of the course needs none of it. `build` is the way in: ``python -m pykraft course build 11``.
"""
