"""What befalls a simulated cluster: the draw of a seed, faults, and links that are cut."""
