"""What befalls a simulated cluster: the draw of a seed, faults, and links that are cut.

It has more than 15 modules, because each kind of history has its draw in one.
"""
