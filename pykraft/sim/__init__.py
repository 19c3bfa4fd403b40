"""The simulator: a clock, a network and a disk made of nothing but objects and seeded dice.

Whole nodes and whole clients run in it, the same classes as on a real machine, since they reach the world only through
ports. A run is a function of its seed, so each failure can be seen again, slowly.
"""
