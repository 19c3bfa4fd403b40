"""The verbs that make, start and watch nodes."""
