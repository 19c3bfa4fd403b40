"""Coordinators: state machines whose log is a partition of an internal topic (groups today)."""
