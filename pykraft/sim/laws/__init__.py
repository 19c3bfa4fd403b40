"""What must be true after every event of a simulated history, and who looks.

It has more than 15 modules, because each has the laws of one subject.
"""
