"""What simulated clients do: produce and read, join groups, commit transactions, move partitions."""
