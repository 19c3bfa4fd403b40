"""A consumer without a thread: its position, what it fetches, and its part in a group."""
