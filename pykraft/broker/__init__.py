"""A node: the broker that stores and replicates partitions, the controller beside it, and what both answer."""
