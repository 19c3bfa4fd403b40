"""The story of a simulated cluster: step through it, step into it, and let it go on differently.

`Simulation(4711).story()` makes one. `story.py` is what people use; the other modules are its parts.
"""
