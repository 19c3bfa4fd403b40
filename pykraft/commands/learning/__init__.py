"""The verbs of the course."""
