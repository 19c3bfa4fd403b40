"""What a simulated node takes for the world: time, a network, a disk, all from seeded dice."""
