"""What simulated clients do: produce and read, join groups, commit transactions, move partitions.

It has more than 15 modules, because each has the clients of one subject.
"""
