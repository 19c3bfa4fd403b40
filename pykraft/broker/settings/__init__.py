"""A node's settings: its properties, which of them change while it runs, and those of its topics."""
