"""What the controller decides about partitions: where their replicas are, who leads, and who is in sync."""
