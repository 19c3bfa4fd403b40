"""What one turn of a node may take: requests and chores go in slices of time."""
