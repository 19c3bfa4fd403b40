"""What an administrator asks of a cluster, subject by subject."""
