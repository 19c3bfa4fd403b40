"""Clients that are not ours, and what they send to the nodes of a simulated cluster."""
