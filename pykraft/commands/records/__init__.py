"""The verbs that write, read, count and delete records."""
